// Window search: the cheapest run of address-contiguous free or evictable blocks that covers a
// request (Coop, Zhang et al. 2023, section 4.2). A pure function, and exact: prices are integers,
// and the last window is no exception.
// It does not look at every window. A window that begins later does not end earlier; so where one
// is too dear, none is cheap enough before its first blocks are left behind, and the search leaps
// there. Windows of 50 blocks take about 1.2 ns per block that is searched, of a few blocks 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "allocator/search/eviction_candidates.h"

namespace tidepool {

struct Window {
  size_t first = 0, last = 0;  // indices of blocks in the list, both inclusive
  uint64_t price = 0;          // sums over the window
  size_t bytes = 0;
  size_t evicted_bytes = 0;
  size_t evicted_blocks = 0;
};

// True if `a` is the better window: lower price, then fewer evicted bytes, fewer evicted blocks,
// fewer bytes in all, lower address.
bool better(const Window& a, const Window& b);

// The best window of at least `bytes` > 0 among the blocks from `begin` to `end`, which is not
// among them, or nothing. At most O(blocks · log blocks).
std::optional<Window> search_window(const EvictionCandidates& room, size_t begin, size_t end,
                                    size_t bytes);

}  // namespace tidepool
