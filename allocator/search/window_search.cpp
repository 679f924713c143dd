#include "allocator/search/window_search.h"

#include <algorithm>
#include <tuple>

namespace tidepool {

bool better(const Window& a, const Window& b) {
  return std::tie(a.price, a.evicted_bytes, a.evicted_blocks, a.bytes, a.first) <
         std::tie(b.price, b.evicted_bytes, b.evicted_blocks, b.bytes, b.first);
}

namespace {

// The first index in [low, high) from which on `holds` is true, or `high`. The loop does not branch
// on the outcomes, because they cannot be predicted.
template <typename Predicate>
size_t first_that(size_t low, size_t high, Predicate&& holds) {
  for (size_t count = high - low; count > 0;) {
    const size_t half = count / 2;
    low += holds(low + half) ? 0 : count - half;
    count = half;
  }
  return low;
}

// Where a window from `first` on ends at the earliest. Requires: this is not before `low`, nor
// after `end`.
size_t earliest_stop(const PricedLayout& room, size_t first, size_t low, size_t end, size_t bytes) {
  auto covers = [&](size_t stop) { return room.bytes(first, stop) >= bytes; };
  if (covers(low)) return low;
  ++low;
  size_t stride = 4;  // mostly it is a few blocks further
  while (low + stride < end && !covers(low + stride)) {
    low += stride + 1;
    stride *= 2;
  }
  return first_that(low, std::min(low + stride, end), covers);
}

// The first block after `first` such that the blocks from it on, up to `stop`, cost at most
// `greatest`. Mostly it is a few blocks before `stop`, or `stop` itself.
size_t affordable_start(const PricedLayout& room, size_t first, size_t stop, uint64_t greatest) {
  auto affords = [&](size_t start) { return room.price(start, stop) <= greatest; };
  size_t high = stop;
  size_t stride = 8;
  while (high - first > stride && affords(high - stride)) {
    high -= stride;
    stride *= 2;
  }
  const size_t low = high - first > stride ? high - stride + 1 : first + 1;
  return first_that(low, high, affords);
}

// Searches among blocks without a barrier, and keeps the best window in `best`.
void search_run(const PricedLayout& room, size_t begin, size_t end, size_t bytes,
                std::optional<Window>& best) {
  uint64_t greatest = best ? best->price : UINT64_MAX;  // what a window may cost at most
  size_t stop = begin;
  for (size_t first = begin;;) {
    while (first < end && room.price(first, first + 1) > greatest) ++first;
    if (room.bytes(first, end) < bytes) return;
    stop = earliest_stop(room, first, std::max(stop, first + 1), end, bytes);
    const uint64_t price = room.price(first, stop);
    if (price > greatest) {
      // No window that begins further on ends before `stop`.
      first = affordable_start(room, first, stop, greatest);
      continue;
    }
    const Window window{first,
                        stop - 1,
                        price,
                        room.bytes(first, stop),
                        room.evicted_bytes(first, stop),
                        room.evicted_blocks(first, stop)};
    if (!best || better(window, *best)) {
      best = window;
      greatest = price;
    }
    ++first;
  }
}

}  // namespace

std::optional<Window> search_window(const PricedLayout& room, size_t begin, size_t end,
                                    size_t bytes) {
  std::optional<Window> best;
  for (const size_t barrier : room.barriers(begin, end)) {
    search_run(room, begin, barrier, bytes, best);
    begin = barrier + 1;
  }
  search_run(room, begin, end, bytes, best);
  return best;
}

}  // namespace tidepool
