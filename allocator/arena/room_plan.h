// RoomPlan: what a search for room returns: how room for one request can be made. Making a plan
// changes nothing; when it is carried out, an owner may refuse to be evicted.
// Plain data. It names blocks by ids that are valid until blocks are merged (Heap::hold_merging()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "allocator/blocks/block.h"

namespace tidepool {

// The bytes from offset `begin` on, up to `end`, counted from the start of the arena's range.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;

  bool contains(size_t offset) const { return begin <= offset && offset < end; }
};

// Where new pages would go: part of a run of free blocks and holes.
struct Site {
  BlockId first{};
  size_t begin = 0;
  size_t claim_end = 0;     // end of the block, or of its last page where that is a hole
  size_t pages_needed = 0;  // 0: no site
};

// Evict the victims, and cut the request's block from the window, all of which is free then. After
// the victims go the spares that cost no more than `spare_limit` by that time: later requests of
// this size need no search.
struct WindowPlan {
  std::vector<BlockId> victims;  // ascending by address
  BlockId first{};
  ByteRange range;  // of whole blocks
  bool begins_with_free_block = false;
  std::vector<BlockId> spares;  // outside of the window, the cheapest first
  uint64_t spare_limit = 0;
};

// Neighbouring pages that lie in one block.
struct PageRun {
  BlockId block{};
  ByteRange range;
};

// Evict the victims, and put pages that are free then, and new ones, under the site.
struct PagesPlan {
  std::vector<BlockId> victims;  // ascending by address
  Site site;
  std::vector<size_t> moved_pages;  // by number, ascending; other pages of the site are new
  std::vector<PageRun> sources;     // where moved pages come from; descending by address
};

// Move contents out of a window, to places elsewhere, and search again; what can be evicted in it
// is left to that search.
struct MovesPlan {
  ByteRange range;
  std::vector<BlockId> moved;  // blocks to move, ascending by address
  std::vector<BlockId> free;   // blocks of the window that are free already, ascending, too
};

// std::monostate: there is no way to make room.
using RoomPlan = std::variant<std::monostate, WindowPlan, PagesPlan, MovesPlan>;

}  // namespace tidepool
