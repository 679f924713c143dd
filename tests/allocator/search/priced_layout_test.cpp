#include "allocator/search/priced_layout.h"

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

std::vector<RoomItem> random_items(test::Random& random) {
  std::vector<RoomItem> items;
  size_t offset = 0;
  for (size_t i = 0, count = random.below(40); i < count; ++i) {
    RoomItem item{offset, 64 * random.between(1, 9), 0, BlockId{static_cast<uint32_t>(100 - i)},
                  static_cast<RoomKind>(random.below(5))};
    if (is_priced(item.kind)) item.price = random.below(Price::kGreatest);
    offset = item.end();
    items.push_back(item);
  }
  return items;
}

TEST_CASE("a list gives back its blocks and their sums, whatever it held before") {
  test::Random random(5);
  PricedLayout room;
  for (int round = 0; round < 2000; ++round) {
    const std::vector<RoomItem> items = random_items(random);
    room.start(items.size());
    for (const RoomItem& item : items) room.add(item);
    room.check_invariants();
    REQUIRE(room.size() == items.size());
    const size_t first = random.between(0, items.size());
    const size_t stop = random.between(first, items.size());
    size_t bytes = 0, evicted_bytes = 0, evicted_blocks = 0, barriers = 0;
    uint64_t price = 0;
    bool same = true;
    for (size_t i = first; i < stop; ++i) {
      const RoomItem& item = items[i];
      same &= room[i].offset == item.offset && room[i].bytes == item.bytes &&
              room[i].price == item.price && room[i].block == item.block &&
              room[i].kind == item.kind;
      same &= room.index_at(item.offset) == i && room.index_at(item.end() - 1) == i;
      bytes += item.bytes;
      price += item.price;
      const bool evictable = is_priced(item.kind);
      evicted_bytes += evictable ? item.bytes : 0;
      evicted_blocks += evictable;
      if (evictable || item.kind == RoomKind::kFree) continue;
      same &= room.barriers(first, stop)[barriers++] == i;
    }
    CHECK(same);
    CHECK(room.bytes(first, stop) == bytes);
    CHECK(room.price(first, stop) == price);
    CHECK(room.evicted_bytes(first, stop) == evicted_bytes);
    CHECK(room.evicted_blocks(first, stop) == evicted_blocks);
    CHECK(room.barriers(first, stop).size() == barriers);
  }
}

TEST_CASE("only evictable blocks have a price") {
  PricedLayout room;
  room.start(2);
  room.add({0, 64, 7, BlockId{1}, RoomKind::kBarrier});
  room.add({64, 64, 9, BlockId{2}, RoomKind::kEvictable});
  CHECK(room.price(0, 2) == 9);
}

}  // namespace
}  // namespace tidepool
