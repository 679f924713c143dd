// AllocationLog: a text with a line for each block that the allocator hands out or takes back, for
// tests that compare this with what stock PyTorch does.
// The text grows without a bound. Not thread safe: the device's lock guards it.
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

  // The lines, "allocate ADDRESS BYTES" or "free ADDRESS", the oldest first.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace tidepool::torch_cpu
