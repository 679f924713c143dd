#include "bindings/torch_cuda/memory/foreign_users.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <utility>

namespace tidepool::torch_cuda {
namespace {

bool succeeded(cudaError_t error) {
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();  // clears the error, which PyTorch would find at its next call
  return false;
}

bool wait_on_device(cudaStream_t owner, c10::DeviceIndex device, c10::cuda::CUDAStream user) {
  cudaEvent_t event = nullptr;
  bool done = false;
  {
    c10::cuda::CUDAGuard guard(user.device_index());
    done = succeeded(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) &&
           succeeded(cudaEventRecord(event, user.stream()));
  }
  c10::cuda::CUDAGuard guard(device);
  done = done && succeeded(cudaStreamWaitEvent(owner, event, 0));
  if (event != nullptr) (void)succeeded(cudaEventDestroy(event));
  return done;
}

}  // namespace

void ForeignUsers::add(const void* address, c10::cuda::CUDAStream user) {
  std::lock_guard<std::mutex> guard(mutex_);
  std::vector<c10::cuda::CUDAStream>& users = users_[address];
  if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
  count_ = users_.size();
}

bool ForeignUsers::order_before_free(const void* address, cudaStream_t owner,
                                     c10::DeviceIndex device) {
  std::vector<c10::cuda::CUDAStream> users;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = users_.find(address);
    if (found == users_.end()) return true;
    users = std::move(found->second);
    users_.erase(found);
    count_ = users_.size();
  }
  return std::all_of(users.begin(), users.end(), [&](const c10::cuda::CUDAStream& user) {
    return wait_on_device(owner, device, user) ||
           succeeded(cudaStreamSynchronize(user.stream()));  // works without the owner, too
  });
}

}  // namespace tidepool::torch_cuda
