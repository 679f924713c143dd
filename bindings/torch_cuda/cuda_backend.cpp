#include "bindings/torch_cuda/cuda_backend.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <mutex>

#include "allocator/base/fingerprint.h"
#include "bindings/torch/engine/work_recorder.h"
#include "bindings/torch_cuda/cuda_allocator.h"

namespace tidepool::torch_cuda {

namespace {

// An explicit instantiation may name a private member: state_member() returns the pointer to it.
using GeneratorState = c10::intrusive_ptr<at::CUDAGeneratorState>;
template <GeneratorState at::CUDAGeneratorImpl::* Member>
struct ReachState {
  friend GeneratorState at::CUDAGeneratorImpl::* state_member() { return Member; }
};
GeneratorState at::CUDAGeneratorImpl::* state_member();
template struct ReachState<&at::CUDAGeneratorImpl::state_>;

// The time of copying a byte, which is read and written at the bandwidth of the device's data
// sheet.
double ns_per_byte(int device) {
  constexpr double kUnknown = 2.0 / 1000;  // a bandwidth of 1 TB/s
  int clock_khz = 0;
  int bus_bits = 0;
  const bool known =
      cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, device) == cudaSuccess &&
      clock_khz > 0 && bus_bits > 0;
  if (!known) {
    static_cast<void>(cudaGetLastError());
    return kUnknown;
  }
  const double bytes_per_ns = 2.0 * clock_khz * 1e3 * bus_bits / 8 / 1e9;  // both clock edges count
  return 2 / bytes_per_ns;
}

}  // namespace

CudaBackend::CudaBackend(CudaAllocator& allocator, DeviceMemory& memory)
    : TorchBackend(c10::Device(c10::kCUDA, memory.index()), memory.allocator().mutex()),
      allocator_(allocator),
      memory_(memory),
      timer_(memory.index(), memory.allocator()),
      copy_ns_per_byte_(ns_per_byte(memory.index())) {}

StreamId CudaBackend::current_stream() const {
  return memory_.id_of(c10::cuda::getCurrentCUDAStream(memory_.index()));
}

void CudaBackend::copy(void* to, const void* from, size_t bytes) {
  if (torch_glue::WorkRecorder* recorder = torch_glue::work_recorder_of(device())) {
    recorder->copied(from, bytes);
  }
  const c10::cuda::CUDAGuard guard(memory_.index());
  C10_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                 c10::cuda::getCurrentCUDAStream(memory_.index())));
}

// Sets the offset without set_offset(), which clears no_reset_rnn_state_, so that cuDNN's recurrent
// layers would begin anew.
void CudaBackend::set_generator_offset(c10::GeneratorImpl& generator, uint64_t offset) {
  auto& state = *(static_cast<at::CUDAGeneratorImpl&>(generator).*state_member());
  state.philox_offset_per_thread_ = offset;
}

std::vector<c10::Storage> CudaBackend::captured_state(const c10::GeneratorImpl& generator) {
  std::vector<c10::Storage> storages;
  const auto add = [&](const at::TensorBase& tensor) {
    if (tensor.defined()) storages.push_back(tensor.storage());
  };
  if (generator.device().type() != c10::kCUDA) return storages;
  auto& state = *(static_cast<const at::CUDAGeneratorImpl&>(generator).*state_member());
#if TIDEPOOL_TORCH_MINOR < 12
  add(state.seed_extragraph_);
  add(state.offset_extragraph_);
#else
  const std::lock_guard<std::mutex> guard(state.capture_states_mutex_);
  for (const auto& [capture, captured] : state.capture_states_) {
    add(captured->rng_state_seed_extragraph_);
    add(captured->rng_state_offset_extragraph_);
  }
#endif
  return storages;
}

uint64_t CudaBackend::copy_ns(size_t bytes) const {
  constexpr double kLaunchNs = 3000;
  return static_cast<uint64_t>(kLaunchNs + static_cast<double>(bytes) * copy_ns_per_byte_);
}

uint64_t CudaBackend::fingerprint(const void* address, size_t bytes) const {
  const c10::cuda::CUDAGuard guard(memory_.index());
  std::vector<char> copy(bytes);
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  C10_CUDA_CHECK(cudaMemcpy(copy.data(), address, bytes, cudaMemcpyDeviceToHost));
  return tidepool::fingerprint(copy.data(), bytes);
}

void CudaBackend::raise_out_of_memory(const OutOfMemoryReport& report) {
  allocator_.raise_out_of_memory(memory_, report);
}

StreamId CudaBackend::number_of(c10::Stream stream) {
  return memory_.id_of(c10::cuda::CUDAStream(stream));
}

StreamId CudaBackend::wait_beside(const std::function<void()>& work) {
  std::call_once(waiting_made_, [this] {
    const c10::cuda::CUDAGuard guard(memory_.index());
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&waiting_, cudaStreamNonBlocking));
  });
  const c10::cuda::CUDAStreamGuard guard(
      c10::cuda::getStreamFromExternal(waiting_, memory_.index()));
  work();
  return memory_.id_of(waiting_);
}

void CudaBackend::remember_stream(remat::Storage& storage, StreamId user) {
  std::vector<StreamId>& users = recorded_[&storage];
  if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
}

bool CudaBackend::attach(remat::Storage& storage, void* address) {
  if (!TorchBackend::attach(storage, address)) return false;
  const auto found = recorded_.find(&storage);
  if (found == recorded_.end()) return true;
  for (StreamId user : found->second) memory_.allocator().record_stream_locked(address, user);
  return true;
}

void CudaBackend::forget(remat::Storage& storage) {
  recorded_.erase(&storage);
  TorchBackend::forget(storage);
}

}  // namespace tidepool::torch_cuda
