#include "remat/simulate/job/block_log.h"

namespace tidepool::plan {

BlockLog::BlockLog(WorkLog& log, BudgetedAllocator& allocator, AllocatorObserver* next)
    : log_(log), allocator_(allocator), next_(next) {
  allocator_.set_observer(this);
}

BlockLog::~BlockLog() { allocator_.set_observer(next_); }

void BlockLog::allocated(const BlockView& block) {
  log_.allocated(allocator_.offset(block.address), block.bytes);
  if (next_ != nullptr) next_->allocated(block);
}

void BlockLog::freed(const BlockView& block, bool still_used) {
  log_.freed(allocator_.offset(block.address));
  if (next_ != nullptr) next_->freed(block, still_used);
}

void BlockLog::awaiting(const BlockView& block, bool starts) {
  if (next_ != nullptr) next_->awaiting(block, starts);
}

void BlockLog::reserved(size_t bytes) {
  log_.held(bytes);
  if (next_ != nullptr) next_->reserved(bytes);
}

void BlockLog::page(const void* address, size_t bytes, bool usable) {
  log_.mapped(allocator_.offset(address), bytes, usable);
  if (next_ != nullptr) next_->page(address, bytes, usable);
}

}  // namespace tidepool::plan
