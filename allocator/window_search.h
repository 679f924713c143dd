// Window search: the cheapest run of address-contiguous free or evictable blocks that covers a
// request. A pure function, exact, one pass with two cursors (Coop, Zhang et al. 2023, section 4.2,
// with two differences: the last window is shrunk too, and prices are integers, so that adding
// and taking away does not drift).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "allocator/block.h"

namespace tidepool {

enum class RoomKind : uint8_t {
  kFree,
  kEvictable,
  kBarrier,  // stays where it is
  kHole,     // no pages: no window crosses it either
};

// One block as a search sees it. Neighbours in a list of items touch.
struct RoomItem {
  size_t offset = 0;
  size_t bytes = 0;
  uint64_t price = 0;  // kEvictable only; at most Price::kGreatest
  BlockId block{};
  RoomKind kind = RoomKind::kBarrier;
};

struct Window {
  size_t first = 0, last = 0;  // indices of items, both inclusive
  uint64_t price = 0;          // sums over the window
  size_t bytes = 0;
  size_t evicted_bytes = 0;
  size_t evicted_blocks = 0;
};

// True if `a` is the better window: lower price, then fewer evicted bytes, fewer evicted blocks,
// fewer bytes in all, lower address.
bool better(const Window& a, const Window& b);

// The best window of at least `bytes` > 0, or nothing. O(items).
std::optional<Window> search_window(std::span<const RoomItem> items, size_t bytes);

}  // namespace tidepool
