#include "bindings/torch_cuda/cuda_backend.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "allocator/fingerprint.h"
#include "bindings/torch_cuda/cuda_allocator.h"

namespace tidepool::torch_cuda {

CudaBackend::CudaBackend(CudaAllocator& allocator, DeviceMemory& memory)
    : TorchBackend(c10::Device(c10::kCUDA, memory.index()), memory.allocator().mutex()),
      allocator_(allocator),
      memory_(memory),
      timer_(memory.index()) {}

StreamId CudaBackend::current_stream() const {
  return memory_.id_of(c10::cuda::getCurrentCUDAStream(memory_.index()));
}

void CudaBackend::copy(void* to, const void* from, size_t bytes) {
  const c10::cuda::CUDAGuard guard(memory_.index());
  C10_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                 c10::cuda::getCurrentCUDAStream(memory_.index())));
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
