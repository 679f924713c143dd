// BlockBook: numbers the blocks of memory that a job allocates, in their order, and lists what
// becomes of them: that they are allocated, freed, or given to a storage. Blocks of storages are
// not listed as freed, because they are freed by the storages' deaths, of which others tell. It
// hears of the blocks of all threads, and of those of restorations, so it is for jobs of one thread
// in which nothing is evicted.
// Owns only its lists. Not thread safe: the device's lock is held.
// Invariant: (1) blocks that are listed as freed were listed as allocated before, and belong to no
// storage.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/base/allocator_observer.h"
#include "remat/lineage/container_bytes.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

class BlockBook final : public RelayingObserver {
 public:
  // `next` hears of everything, too.
  explicit BlockBook(AllocatorObserver& next) : RelayingObserver(&next) {}

  // Gives the block at `address` to a storage. Returns the block's number; kNone for nullptr, and
  // for a block that was allocated before the book was begun.
  uint32_t give(const void* address);

  // What has happened since clear().
  const std::vector<BlockChange>& changes() const { return changes_; }
  void clear() { changes_.clear(); }
  size_t bookkeeping_bytes() const { return bytes_of(entries_) + bytes_of(changes_); }

  void allocated(const BlockView& block) override;
  void freed(const BlockView& block, bool still_used) override;

 private:
  struct Entry {
    uint32_t number = BlockChange::kNone;
    bool storages = false;  // a storage has it
  };

  absl::flat_hash_map<const void*, Entry> entries_;
  std::vector<BlockChange> changes_;
  uint32_t blocks_ = 0;
};

}  // namespace tidepool::remat
