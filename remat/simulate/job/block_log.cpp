#include "remat/simulate/job/block_log.h"

namespace tidepool::remat {

BlockLog::BlockLog(WorkLog& log, BudgetedAllocator& allocator, AllocatorObserver* next)
    : RelayingObserver(next), log_(log), allocator_(allocator) {
  allocator_.set_observer(this);
}

BlockLog::~BlockLog() { allocator_.set_observer(next_); }

void BlockLog::allocated(const BlockView& block) {
  log_.allocated(allocator_.offset(block.address), block.bytes);
  RelayingObserver::allocated(block);
}

void BlockLog::freed(const BlockView& block, bool still_used) {
  log_.freed(allocator_.offset(block.address));
  RelayingObserver::freed(block, still_used);
}

void BlockLog::reserved(size_t bytes) {
  log_.held(bytes);
  RelayingObserver::reserved(bytes);
}

void BlockLog::page(const void* address, size_t bytes, bool usable) {
  log_.mapped(allocator_.offset(address), bytes, usable);
  RelayingObserver::page(address, bytes, usable);
}

}  // namespace tidepool::remat
