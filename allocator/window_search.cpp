#include "allocator/window_search.h"

#include <tuple>

namespace tidepool {

bool better(const Window& a, const Window& b) {
  return std::tie(a.price, a.evicted_bytes, a.evicted_blocks, a.bytes, a.first) <
         std::tie(b.price, b.evicted_bytes, b.evicted_blocks, b.bytes, b.first);
}

namespace {

// Adds an item to the sums of a window, or, by `sign` -1, takes it away. Without a branch: which
// blocks are free is past predicting, and this runs for each block twice.
void add(Window& window, const RoomItem& item, size_t sign) {
  const size_t evictable = item.kind == RoomKind::kEvictable ? 1 : 0;
  const size_t counted = sign * evictable;
  window.bytes += sign * item.bytes;
  window.price += counted * item.price;
  window.evicted_bytes += counted * item.bytes;
  window.evicted_blocks += counted;
}

}  // namespace

std::optional<Window> search_window(std::span<const RoomItem> items, size_t bytes) {
  constexpr size_t kAway = ~size_t{0};  // -1: the sums are unsigned, and never below 0 after both
  std::optional<Window> best;
  uint64_t best_price = UINT64_MAX;
  Window window;  // of items [window.first, right]
  for (size_t right = 0; right < items.size(); ++right) {
    const RoomItem& item = items[right];
    if (item.kind == RoomKind::kBarrier || item.kind == RoomKind::kHole) [[unlikely]] {
      window = Window{};
      window.first = right + 1;
      continue;
    }
    add(window, item, 1);
    if (window.bytes < bytes) continue;
    // Prices are not negative: of the windows that end here the shortest is the best.
    while (window.bytes - items[window.first].bytes >= bytes) {
      add(window, items[window.first++], kAway);
    }
    if (window.price > best_price) [[likely]] continue;
    window.last = right;
    if (best && !better(window, *best)) continue;
    best = window;
    best_price = window.price;
  }
  return best;
}

}  // namespace tidepool
