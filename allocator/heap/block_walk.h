// BlockWalk: visits all blocks in address order. Neighbours are far apart in memory, so that each
// would cost a cache miss, one after the other; what comes some blocks later is therefore fetched
// ahead, by a pointer that the last walk left (jump pointers: Luk and Mowry, ASPLOS 1996).
// Owns these pointers. They are guesses: blocks come and go between two walks, and none is visited
// because of them. Not thread safe.
#pragma once

#include <array>
#include <vector>

#include "allocator/heap/block_list.h"

namespace tidepool {

class BlockWalk {
 public:
  // Calls visit(BlockId) for each block; `visit` must not change the list.
  template <typename Visit>
  void run(const BlockList& blocks, Visit&& visit) {
    later_.resize(blocks.record_count());
    std::array<BlockId, kRecord> visited{};  // and kNone, whose pointer nobody reads
    std::array<BlockId, kOwner> fetched{};
    size_t step = 0;
    for (BlockId id = blocks.first(); id != BlockId::kNone; id = blocks[id].next, ++step) {
      const BlockId ahead = later_[static_cast<uint32_t>(id)];
      __builtin_prefetch(&blocks[ahead]);
      BlockId& nearer = fetched[step % kOwner];
      __builtin_prefetch(blocks[nearer].owner);
      nearer = ahead;
      visit(id);
      BlockId& before = visited[step % kRecord];
      later_[static_cast<uint32_t>(before)] = id;
      before = id;
    }
  }

 private:
  // So many blocks later; a visit takes about a tenth of a miss. The owner's memory is fetched when
  // the record, fetched so many blocks before, is there to name it.
  static constexpr size_t kRecord = 16, kOwner = 8;

  std::vector<BlockId> later_;  // by record: which block came kRecord later in the last walk
};

}  // namespace tidepool
