#include "allocator/window_search.h"

#include <tuple>

namespace tidepool {

bool better(const Window& a, const Window& b) {
  return std::tie(a.price, a.evicted_bytes, a.evicted_blocks, a.bytes, a.first) <
         std::tie(b.price, b.evicted_bytes, b.evicted_blocks, b.bytes, b.first);
}

std::optional<Window> search_window(std::span<const RoomItem> items, size_t bytes) {
  std::optional<Window> best;
  Window window;  // of items [window.first, right]
  for (size_t right = 0; right < items.size(); ++right) {
    const RoomItem& item = items[right];
    if (item.kind == RoomKind::kBarrier || item.kind == RoomKind::kHole) {
      window = Window{};
      window.first = right + 1;
      continue;
    }
    window.bytes += item.bytes;
    if (item.kind == RoomKind::kEvictable) {
      window.price += item.price;
      window.evicted_bytes += item.bytes;
      ++window.evicted_blocks;
    }
    if (window.bytes < bytes) continue;
    // Prices are not negative: of the windows that end here the shortest is the best.
    while (window.bytes - items[window.first].bytes >= bytes) {
      const RoomItem& left = items[window.first++];
      window.bytes -= left.bytes;
      if (left.kind == RoomKind::kEvictable) {
        window.price -= left.price;
        window.evicted_bytes -= left.bytes;
        --window.evicted_blocks;
      }
    }
    window.last = right;
    if (!best || better(window, *best)) best = window;
  }
  return best;
}

}  // namespace tidepool
