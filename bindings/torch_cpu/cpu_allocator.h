// CpuAllocator: PyTorch's allocator interface over the engine's BudgetedAllocator.
// Owns nothing. Thread safe. Out of memory is PyTorch's own exception type.
#pragma once

#include <c10/core/Allocator.h>

namespace tidepool::torch_cpu {

class CpuAllocator final : public c10::Allocator {
 public:
  // Throws: c10::OutOfMemoryError with the allocator's report.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t count) const override;

  // Makes it PyTorch's CPU allocator for good.
  static void install();
};

}  // namespace tidepool::torch_cpu
