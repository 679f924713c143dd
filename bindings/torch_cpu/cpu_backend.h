// CpuBackend: the part of the PyTorch backend that is the CPU's own. It remembers how fast copies
// were. Thread safe.
#pragma once

#include <atomic>

#include "bindings/torch/base/host_prices.h"
#include "bindings/torch/engine/torch_backend.h"

namespace tidepool::torch_cpu {

class CpuBackend : public torch_glue::TorchBackend {
 public:
  explicit CpuBackend(DeviceMutex& mutex) : TorchBackend(c10::Device(c10::kCPU), mutex) {}

  void copy(void* to, const void* from, size_t bytes) override;
  uint64_t copy_ns(size_t bytes) const override;
  uint64_t fingerprint(const void* address, size_t bytes) const override;
  bool host_reads_contents() const override { return true; }
  [[noreturn]] void raise_out_of_memory(const OutOfMemoryReport& report) override;

 private:
  // An average over large copies, in which each newer one weighs more.
  std::atomic<float> copy_ns_per_byte_{torch_glue::kHostCopyNsPerByte};
};

}  // namespace tidepool::torch_cpu
