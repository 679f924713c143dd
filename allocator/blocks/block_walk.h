// BlockWalk: visits blocks in address order. The records of neighbours are far apart in memory,
// so that a plain walk would wait for a cache miss at each block. This one fetches ahead the block
// that comes some blocks later, by a pointer that the last walk left (jump pointers: Luk and Mowry,
// ASPLOS 1996).
// Owns these pointers. They are only guesses, because blocks come and go between two walks; no
// block is visited because of them. Not thread safe.
#pragma once

#include <array>
#include <vector>

#include "allocator/blocks/block_list.h"

namespace tidepool {

class BlockWalk {
 public:
  // Calls visit(BlockId) for each block; `visit` must not change the list.
  template <typename Visit>
  void run(const BlockList& blocks, Visit&& visit) {
    run_from(blocks.first(), blocks, [&](BlockId id) {
      visit(id);
      return true;
    });
  }

  // Calls visit(BlockId) for each block from `first` on, as long as it returns true.
  template <typename Visit>
  void run_from(BlockId first, const BlockList& blocks, Visit&& visit) {
    later_.resize(blocks.record_count());
    std::array<BlockId, kRecord> visited{};  // at first kNone, whose pointer nobody reads
    std::array<BlockId, kOwner> fetched{};
    size_t step = 0;
    for (BlockId id = first; id != BlockId::kNone; id = blocks[id].next, ++step) {
      const BlockId ahead = later_[static_cast<uint32_t>(id)];
      __builtin_prefetch(&blocks[ahead]);
      BlockId& nearer = fetched[step % kOwner];
      __builtin_prefetch(blocks[nearer].owner);
      nearer = ahead;
      if (!visit(id)) return;
      BlockId& before = visited[step % kRecord];
      later_[static_cast<uint32_t>(before)] = id;
      before = id;
    }
  }

 private:
  // How many blocks ahead a record is fetched, and the memory of its owner, which is known only
  // once the record has arrived. A visit takes about a tenth of a cache miss.
  static constexpr size_t kRecord = 16, kOwner = 8;

  std::vector<BlockId> later_;  // by record: which block came kRecord later in the last walk
};

}  // namespace tidepool
