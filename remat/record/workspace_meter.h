// WorkspaceMeter: the bytes that an operator allocates beyond its results while it runs: what it
// allocates and frees itself, at its fullest. What is freed that was there before, by an eviction
// for example, does not count.
// An operator is measured on the thread that runs it; its own threads are not looked at. Owns
// nothing. Not thread safe but for that: the device's lock is held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/base/allocator_observer.h"

namespace tidepool::plan {

class WorkspaceMeter final : public AllocatorObserver {
 public:
  // Starts to measure on this thread, unless that is being done already.
  void begin();
  // Ends it. Returns the bytes at the fullest, less those that are left; 0 if nothing was measured.
  size_t end();

  // What this thread's operator, if one is measured, holds now.
  size_t running_bytes() const;

  // What is under way on any thread counts no more.
  void forget_all() { ++generation_; }

  void allocated(const BlockView& block) override;
  void freed(const BlockView& block, bool still_used) override;
  void awaiting(const BlockView&, bool) override {}
  void reserved(size_t) override {}
  void page(const void*, size_t, bool) override {}

 private:
  uint64_t generation_ = 0;  // of measurements that count
};

}  // namespace tidepool::plan
