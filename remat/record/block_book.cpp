#include "remat/record/block_book.h"

namespace tidepool::remat {

uint32_t BlockBook::give(const void* address) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) return BlockChange::kNone;
  found->second.storages = true;
  return found->second.number;
}

void BlockBook::allocated(const BlockView& block) {
  entries_[block.address] = {blocks_, false};
  changes_.push_back({blocks_++, block.requested_bytes});
  RelayingObserver::allocated(block);
}

void BlockBook::freed(const BlockView& block, bool still_used) {
  const auto found = entries_.find(block.address);
  if (found != entries_.end()) {
    if (!found->second.storages) changes_.push_back({found->second.number, 0});
    entries_.erase(found);
  }
  RelayingObserver::freed(block, still_used);
}

}  // namespace tidepool::remat
