#include "allocator/window_search.h"

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using Items = std::vector<RoomItem>;

Items random_layout(test::Random& random) {
  Items items;
  size_t offset = 0;
  size_t count = random.between(1, 24);
  unsigned barriers = random.chance(50) ? 5 : 25;
  uint64_t greatest_price = random.chance(30) ? 3 : random.chance(50) ? 1000 : Price::kGreatest;
  for (size_t i = 0; i < count; ++i) {
    size_t bytes = 64 * random.between(1, random.chance(20) ? 40 : 6);
    RoomItem item{offset, bytes, 0, BlockId{static_cast<uint32_t>(i + 1)}, RoomKind::kFree};
    if (random.chance(barriers)) {
      item.kind = random.chance(50) ? RoomKind::kBarrier : RoomKind::kHole;
    } else if (random.chance(70)) {
      item.kind = RoomKind::kEvictable;
      item.price = random.between(0, greatest_price);
    }
    items.push_back(item);
    offset += bytes;
  }
  return items;
}

// Every pair of ends, every sum from scratch.
std::optional<Window> brute_force(const Items& items, size_t bytes) {
  std::optional<Window> best;
  for (size_t first = 0; first < items.size(); ++first) {
    for (size_t last = first; last < items.size(); ++last) {
      Window window{first, last, 0, 0, 0, 0};
      bool barrier = false;
      for (size_t i = first; i <= last; ++i) {
        barrier |= items[i].kind == RoomKind::kBarrier || items[i].kind == RoomKind::kHole;
        window.bytes += items[i].bytes;
        if (items[i].kind != RoomKind::kEvictable) continue;
        window.price += items[i].price;
        window.evicted_bytes += items[i].bytes;
        ++window.evicted_blocks;
      }
      if (!barrier && window.bytes >= bytes && (!best || better(window, *best))) best = window;
    }
  }
  return best;
}

TEST_CASE("a window search equals brute force") {
  test::Random random(1);
  size_t found = 0;
  size_t at_the_end = 0;
  for (int round = 0; round < 120000; ++round) {
    Items items = random_layout(random);
    size_t bytes = 64 * random.between(1, 40);
    std::optional<Window> expected = brute_force(items, bytes);
    std::optional<Window> window = search_window(items, bytes);
    if (window.has_value() != expected.has_value()) FAIL("round " << round);
    if (!window) continue;
    bool same = window->first == expected->first && window->last == expected->last &&
                window->price == expected->price && window->bytes == expected->bytes &&
                window->evicted_bytes == expected->evicted_bytes &&
                window->evicted_blocks == expected->evicted_blocks;
    if (!same) {
      FAIL("round " << round << ": [" << window->first << ", " << window->last << "] for "
                    << window->price << ", not [" << expected->first << ", " << expected->last
                    << "] for " << expected->price);
    }
    ++found;
    at_the_end += window->last + 1 == items.size() && window->evicted_blocks > 0;
  }
  CHECK(found > 50000);
  CHECK(at_the_end > 1000);
}

TEST_CASE("the last window is shrunk too") {
  // The dear block at the left end is not needed once the last block is in.
  Items items = {{0, 64, 900, BlockId{1}, RoomKind::kEvictable},
                 {64, 128, 5, BlockId{2}, RoomKind::kEvictable},
                 {192, 128, 7, BlockId{3}, RoomKind::kEvictable}};
  std::optional<Window> window = search_window(items, 256);
  REQUIRE(window);
  CHECK(window->first == 1);
  CHECK(window->last == 2);
  CHECK(window->price == 12);
}

TEST_CASE("ties go to fewer evicted bytes, then fewer blocks, then the lower address") {
  auto evictable = [](size_t offset, size_t bytes) {
    return RoomItem{offset, bytes, 0, BlockId{1}, RoomKind::kEvictable};
  };
  auto barrier = [](size_t offset) {
    return RoomItem{offset, 64, 0, BlockId{1}, RoomKind::kBarrier};
  };
  Items bytes = {evictable(0, 256), barrier(256), evictable(320, 192)};
  CHECK(search_window(bytes, 128)->first == 2);
  Items blocks = {evictable(0, 64), evictable(64, 64), barrier(128), evictable(192, 128)};
  CHECK(search_window(blocks, 128)->first == 3);
  Items address = {barrier(0), evictable(64, 128), barrier(192), evictable(256, 128)};
  CHECK(search_window(address, 128)->first == 1);
}

TEST_CASE("a layout without room has no window") {
  CHECK_FALSE(search_window({}, 64));
  Items items = {{0, 128, 0, BlockId{1}, RoomKind::kFree},
                 {128, 64, 0, BlockId{2}, RoomKind::kHole},
                 {192, 128, 0, BlockId{3}, RoomKind::kFree}};
  CHECK_FALSE(search_window(items, 192));
  CHECK(search_window(items, 128));
}

}  // namespace
}  // namespace tidepool
