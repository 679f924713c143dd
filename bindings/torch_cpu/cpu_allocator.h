// CpuAllocator: PyTorch's allocator interface over the engine's BudgetedAllocator.
// Owns nothing. Thread safe.
#pragma once

#include <c10/core/Allocator.h>

namespace tidepool::torch_cpu {

class CpuAllocator final : public c10::Allocator {
 public:
  // Throws: c10::OutOfMemoryError with the allocator's report.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t count) const override;

  // Makes a CpuAllocator PyTorch's allocator of the CPU for good.
  static void install();
};

}  // namespace tidepool::torch_cpu
