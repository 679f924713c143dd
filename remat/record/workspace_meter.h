// WorkspaceMeter: measures the bytes that an operator allocates beyond its results while it runs,
// at the moment when they are most. Memory that was there before and is freed, by an eviction for
// example, does not count, nor does the place that older contents are moved to.
// An operator is measured on the thread that runs it, not on threads of its own.
// Owns nothing. Not thread safe otherwise: the device's lock is held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/base/allocator_observer.h"

namespace tidepool::remat {

class WorkspaceMeter final : public AllocatorObserver {
 public:
  // Starts to measure on this thread, unless that is being done already.
  void begin();
  // Ends the measurement. Returns the most bytes there were, less those that are left; 0 if nothing
  // was measured.
  size_t end();

  // How many bytes this thread's operator holds now; 0 if none is measured.
  size_t running_bytes() const;

  // Drops the measurements that are under way on all threads.
  void forget_all() { ++generation_; }

  void allocated(const BlockView& block) override;
  void freed(const BlockView& block, bool still_used) override;
  void awaiting(const BlockView&, bool) override {}
  void reserved(size_t) override {}
  void page(const void*, size_t, bool) override {}

 private:
  uint64_t generation_ = 0;  // of measurements that count
};

}  // namespace tidepool::remat
