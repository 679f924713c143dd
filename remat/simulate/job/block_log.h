// BlockLog: writes what becomes of an allocator's blocks and pages into a work log with blocks, and
// tells another observer, if there is one.
// Owns neither. It is the allocator's observer from its construction to its end; the other one is
// the observer again afterwards. Not thread safe: an observer is called with the device's lock
// held, and what happens on the device stays on one thread while a log is written.
#pragma once

#include "allocator/base/allocator_observer.h"
#include "allocator/budgeted_allocator.h"
#include "remat/simulate/job/work_log.h"

namespace tidepool::remat {

class BlockLog final : public RelayingObserver {
 public:
  // Requires: the log has blocks; `next` is the allocator's observer now, or nullptr.
  BlockLog(WorkLog& log, BudgetedAllocator& allocator, AllocatorObserver* next);
  ~BlockLog();
  BlockLog(const BlockLog&) = delete;
  BlockLog& operator=(const BlockLog&) = delete;

  void allocated(const BlockView& block) override;
  void freed(const BlockView& block, bool still_used) override;
  void reserved(size_t bytes) override;
  void page(const void* address, size_t bytes, bool usable) override;

 private:
  WorkLog& log_;
  BudgetedAllocator& allocator_;
};

}  // namespace tidepool::remat
