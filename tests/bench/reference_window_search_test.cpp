#include "bench/allocator/reference_window_search.h"

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::bench {
namespace {

TEST_CASE("the reference-shaped search finds windows that fit, and seldom not the cheapest") {
  test::Random random(3);
  size_t found = 0;
  size_t dearer = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<RoomItem> items;
    size_t offset = 0;
    for (size_t k = 0, count = random.between(1, 20); k < count; ++k) {
      const size_t bytes = 64 * random.between(1, 6);
      RoomItem item{offset, bytes, 0, BlockId{static_cast<uint32_t>(k + 1)}, RoomKind::kFree};
      if (random.chance(10)) item.kind = RoomKind::kBarrier;
      if (item.kind == RoomKind::kFree && random.chance(80)) {
        item.kind = RoomKind::kEvictable;
        item.price = random.between(1, 1000);
      }
      items.push_back(item);
      offset += bytes;
    }
    const size_t wanted = 64 * random.between(1, 20);
    const std::optional<Window> exact = search_window(PricedLayout(items), 0, items.size(), wanted);
    const std::optional<Window> window = reference_window_search(items, wanted);
    REQUIRE(window.has_value() == exact.has_value());
    if (!window) continue;
    ++found;
    REQUIRE(window->bytes >= wanted);
    REQUIRE(window->price >= exact->price);
    dearer += window->price > exact->price;
  }
  CHECK(found > 5000);
  CHECK(dearer > 0);
  CHECK(dearer < found / 10);
}

}  // namespace
}  // namespace tidepool::bench
