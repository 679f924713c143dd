#include "allocator/search/window_search.h"

#include <fmt/format.h>

#include <string>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using Items = std::vector<RoomItem>;

std::optional<Window> search(const Items& items, size_t bytes) {
  return search_window(PricedLayout(items), 0, items.size(), bytes);
}

Items random_layout(test::Random& random, size_t most_blocks) {
  Items items;
  size_t offset = 0;
  size_t count = random.between(1, most_blocks);
  unsigned barriers = random.chance(50) ? 5 : 25;
  if (random.chance(20)) barriers = 0;
  unsigned free = random.chance(20) ? 0 : 30;
  unsigned large = random.chance(30) ? 0 : 20;
  uint64_t least_price = 0;
  uint64_t greatest_price = random.chance(30) ? 3 : random.chance(50) ? 1000 : Price::kGreatest;
  if (random.chance(10)) least_price = greatest_price;  // nothing but ties
  for (size_t i = 0; i < count; ++i) {
    size_t bytes = 64 * random.between(1, random.chance(large) ? 40 : 6);
    RoomItem item{offset, bytes, 0, BlockId{static_cast<uint32_t>(i + 1)}, RoomKind::kFree};
    if (random.chance(barriers)) {
      item.kind = random.chance(50) ? RoomKind::kBarrier : RoomKind::kHole;
    } else if (!random.chance(free)) {
      item.kind = random.chance(70) ? RoomKind::kEvictable : RoomKind::kMovable;
      item.price = random.between(least_price, greatest_price);
    }
    items.push_back(item);
    offset += bytes;
  }
  return items;
}

// Every pair of ends, every sum from scratch.
std::optional<Window> brute_force(const Items& items, size_t begin, size_t end, size_t bytes) {
  std::optional<Window> best;
  for (size_t first = begin; first < end; ++first) {
    Window window{first, first, 0, 0, 0, 0};
    for (size_t last = first; last < end; ++last) {
      if (items[last].kind == RoomKind::kBarrier || items[last].kind == RoomKind::kHole) break;
      window.last = last;
      window.bytes += items[last].bytes;
      if (is_priced(items[last].kind)) {
        window.price += items[last].price;
        window.evicted_bytes += items[last].bytes;
        ++window.evicted_blocks;
      }
      if (window.bytes >= bytes && (!best || better(window, *best))) best = window;
    }
  }
  return best;
}

std::string text(const std::optional<Window>& window) {
  if (!window) return "none";
  return fmt::format("[{}, {}] for {}, {} bytes, {} in {} evicted", window->first, window->last,
                     window->price, window->bytes, window->evicted_bytes, window->evicted_blocks);
}

struct Tally {
  size_t found = 0, at_the_end = 0, in_part = 0;
};

// All rounds use one list, as an arena does.
Tally compare(uint64_t seed, int rounds, size_t most_blocks, size_t most_bytes) {
  test::Random random(seed);
  PricedLayout room;
  Tally tally;
  for (int round = 0; round < rounds; ++round) {
    const Items items = random_layout(random, most_blocks);
    room.start(items.size());
    for (const RoomItem& item : items) room.add(item);
    size_t begin = 0, end = items.size();
    if (random.chance(20)) {  // a zone
      begin = random.below(items.size());
      end = random.between(begin, items.size());
    }
    const size_t bytes = random.between(1, most_bytes);
    const std::optional<Window> expected = brute_force(items, begin, end, bytes);
    const std::optional<Window> window = search_window(room, begin, end, bytes);
    if (text(window) != text(expected)) {
      FAIL("round " << round << ": " << text(window) << ", not " << text(expected));
    }
    if (!window) continue;
    ++tally.found;
    tally.at_the_end += window->last + 1 == items.size() && window->evicted_blocks > 0;
    tally.in_part += begin > 0 || end < items.size();
  }
  return tally;
}

TEST_CASE("a window search equals brute force") {
  const Tally tally = compare(1, 120000, 24, 64 * 40);
  CHECK(tally.found > 50000);
  CHECK(tally.at_the_end > 1000);
  CHECK(tally.in_part > 1000);
}

TEST_CASE("a search that leaps over many blocks equals brute force") {
  const Tally tally = compare(2, 2000, 400, 64 * 400);
  CHECK(tally.found > 500);
  CHECK(tally.at_the_end > 1);
}

TEST_CASE("the last window is shrunk too") {
  // The dear block at the left end is not needed once the last block is in.
  Items items = {{0, 64, 900, BlockId{1}, RoomKind::kEvictable},
                 {64, 128, 5, BlockId{2}, RoomKind::kEvictable},
                 {192, 128, 7, BlockId{3}, RoomKind::kEvictable}};
  std::optional<Window> window = search(items, 256);
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
  CHECK(search(bytes, 128)->first == 2);
  Items blocks = {evictable(0, 64), evictable(64, 64), barrier(128), evictable(192, 128)};
  CHECK(search(blocks, 128)->first == 3);
  Items address = {barrier(0), evictable(64, 128), barrier(192), evictable(256, 128)};
  CHECK(search(address, 128)->first == 1);
}

TEST_CASE("a layout without room has no window") {
  CHECK_FALSE(search({}, 64));
  Items items = {{0, 128, 0, BlockId{1}, RoomKind::kFree},
                 {128, 64, 0, BlockId{2}, RoomKind::kHole},
                 {192, 128, 0, BlockId{3}, RoomKind::kFree}};
  CHECK_FALSE(search(items, 192));
  CHECK(search(items, 128));
}

}  // namespace
}  // namespace tidepool
