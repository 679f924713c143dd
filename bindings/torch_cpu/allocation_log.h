// AllocationLog: every block that the allocator handed out and took back, as text, for tests that
// compare this with what stock PyTorch does.
// Grows without a bound. Called with the device's lock held, which guards it.
#pragma once

#include <string>

#include "allocator/base/allocator_observer.h"

namespace tidepool::torch_cpu {

class AllocationLog final : public AllocatorObserver {
 public:
  void allocated(const BlockView& block) override;
  void freed(const BlockView& block, bool still_used) override;
  void awaiting(const BlockView&, bool) override {}
  void reserved(size_t) override {}
  void page(const void*, size_t, bool) override {}

  // Lines "allocate ADDRESS BYTES" and "free ADDRESS", oldest first.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace tidepool::torch_cpu
