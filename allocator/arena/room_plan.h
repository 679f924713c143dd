// RoomPlan: how room for one request can be made: what a search returns. Making a plan changes
// nothing; carrying it out may find that a victim refuses.
// Plain data, of block ids that are good until blocks are merged (Heap::hold_merging()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "allocator/heap/block.h"

namespace tidepool {

// Bytes from `begin` to `end`, which is not among them, counted from the start of the range.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;

  bool contains(size_t offset) const { return begin <= offset && offset < end; }
};

// Where new pages would go: part of a run of free blocks and holes.
struct Site {
  BlockId first{};
  size_t begin = 0;
  size_t claim_end = 0;     // end of the request, or of its last page where that is a hole
  size_t pages_needed = 0;  // 0: no site
};

// Evict the victims: the request's block lies among what is free then.
struct WindowPlan {
  std::vector<BlockId> victims;  // ascending by address
  BlockId first{};
  ByteRange range;  // of whole blocks
  bool begins_with_free_block = false;
};

// Pages of one block, neighbours of each other.
struct PageRun {
  BlockId block{};
  ByteRange range;
};

// Evict the victims, and put pages that are free then, and new ones, under the site.
struct PagesPlan {
  std::vector<BlockId> victims;  // ascending by address
  Site site;
  std::vector<size_t> moved_pages;  // by number, ascending; the others that the site needs are new
  std::vector<PageRun> sources;     // of the moved pages; descending by address
};

// Move contents out of a window, to places elsewhere, and search again.
struct MovesPlan {
  ByteRange range;
  std::vector<BlockId> moved;  // ascending by address, like the next
  std::vector<BlockId> free;   // blocks of the window that are free already
};

// std::monostate: there is no such way.
using RoomPlan = std::variant<std::monostate, WindowPlan, PagesPlan, MovesPlan>;

}  // namespace tidepool
