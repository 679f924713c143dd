// CpuBackend: the part of the PyTorch backend that is the CPU's own. Stateless. Thread safe.
#pragma once

#include "bindings/torch/torch_backend.h"

namespace tidepool::torch_cpu {

class CpuBackend final : public torch_glue::TorchBackend {
 public:
  explicit CpuBackend(DeviceMutex& mutex) : TorchBackend(c10::Device(c10::kCPU), mutex) {}

  void copy(void* to, const void* from, size_t bytes) override;
  uint64_t fingerprint(const void* address, size_t bytes) const override;
  [[noreturn]] void raise_out_of_memory(const OutOfMemoryReport& report) override;
};

}  // namespace tidepool::torch_cpu
