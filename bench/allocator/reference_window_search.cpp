#include "bench/allocator/reference_window_search.h"

namespace tidepool::bench {

std::optional<Window> reference_window_search(std::span<const RoomItem> items, size_t bytes) {
  std::optional<Window> best;
  double best_price = 0;
  double price = 0;
  size_t left = 0;
  size_t covered = 0;
  for (size_t right = 0; right < items.size(); ++right) {
    const RoomItem& item = items[right];
    if (item.kind == RoomKind::kBarrier || item.kind == RoomKind::kHole) {
      left = right + 1;
      covered = 0;
      price = 0;
      continue;
    }
    covered += item.bytes;
    price += static_cast<double>(item.price);
    // Shrunk only to make room for the next block: the window that this leaves is not looked at.
    while (covered >= bytes) {
      if (!best || price < best_price) {
        best_price = price;
        best = Window{left, right, 0, covered, 0, 0};
      }
      covered -= items[left].bytes;
      price -= static_cast<double>(items[left].price);
      ++left;
      if (right + 1 == items.size()) break;
    }
  }
  if (!best) return std::nullopt;
  for (size_t k = best->first; k <= best->last; ++k) {  // what it costs in fact
    if (items[k].kind != RoomKind::kEvictable) continue;
    best->price += items[k].price;
    best->evicted_bytes += items[k].bytes;
    ++best->evicted_blocks;
  }
  return best;
}

}  // namespace tidepool::bench
