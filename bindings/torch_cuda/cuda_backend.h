// CudaBackend: the part of the PyTorch backend that is CUDA's own, for one device. Thread safe.
#pragma once

#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bindings/torch/engine/torch_backend.h"
#include "bindings/torch_cuda/event_timer.h"
#include "bindings/torch_cuda/memory/device_memory.h"

namespace tidepool::torch_cuda {

class CudaAllocator;

class CudaBackend final : public torch_glue::TorchBackend {
 public:
  // Requires: allocator and memory outlive the backend.
  CudaBackend(CudaAllocator& allocator, DeviceMemory& memory);

  // Work goes to the calling thread's current stream of the device.
  bool has_streams() const override { return true; }
  StreamId current_stream() const override;
  void copy(void* to, const void* from, size_t bytes) override;
  uint64_t copy_ns(size_t bytes) const override;
  // Waits for all work on the device; for debugging.
  uint64_t fingerprint(const void* address, size_t bytes) const override;
  [[noreturn]] void raise_out_of_memory(const OutOfMemoryReport& report) override;

  void set_generator_offset(c10::GeneratorImpl& generator, uint64_t offset) override;
  std::vector<c10::Storage> captured_state(const c10::GeneratorImpl& generator) override;
  torch_glue::OperatorTimer* timer() override { return &timer_; }
  StreamId number_of(c10::Stream stream) override;
  StreamId wait_beside(const std::function<void()>& work) override;

  // Notes that the job has recorded a stream for a storage (record_stream). attach() tells the
  // allocator of it whenever the storage gets another block.
  void remember_stream(remat::Storage& storage, StreamId user) override;
  bool attach(remat::Storage& storage, void* address) override;
  void forget(remat::Storage& storage) override;

 private:
  CudaAllocator& allocator_;
  DeviceMemory& memory_;
  EventTimer timer_;
  const double copy_ns_per_byte_;
  std::once_flag waiting_made_;
  cudaStream_t waiting_ = nullptr;  // of wait_beside()
  // The streams of remember_stream(). The device's lock guards it.
  absl::flat_hash_map<const remat::Storage*, std::vector<StreamId>> recorded_;
};

}  // namespace tidepool::torch_cuda
