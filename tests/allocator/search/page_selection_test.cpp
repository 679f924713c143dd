#include "allocator/search/page_selection.h"

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 1024;

std::vector<RoomItem> random_items(test::Random& random) {
  std::vector<RoomItem> items;
  size_t offset = 0;
  size_t count = random.between(1, 12);
  for (size_t i = 0; i < count; ++i) {
    size_t bytes = 64 * random.between(1, random.chance(40) ? 64 : 8);
    RoomItem item{offset, bytes, 0, BlockId{1}, RoomKind::kFree};
    if (random.chance(15)) {
      item.kind = RoomKind::kBarrier;
    } else if (random.chance(80)) {
      item.kind = RoomKind::kEvictable;
      item.price = random.between(0, 1000);
    }
    items.push_back(item);
    offset += bytes;
    if (!random.chance(10)) continue;
    // A hole starts at a page's end: fill up to it with a free block first.
    if (size_t rest = (kPage - offset % kPage) % kPage; rest > 0) {
      items.push_back({offset, rest, 0, BlockId{1}, RoomKind::kFree});
      offset += rest;
    }
    items.push_back({offset, 2 * kPage, 0, BlockId{1}, RoomKind::kHole});
    offset += 2 * kPage;
  }
  if (size_t rest = (kPage - offset % kPage) % kPage; rest > 0) {
    items.push_back({offset, rest, 0, BlockId{1}, RoomKind::kFree});
  }
  return items;
}

// How many whole pages are free once the chosen evictable items are gone.
std::vector<size_t> free_pages(const std::vector<RoomItem>& items,
                               const std::vector<bool>& evicted) {
  size_t end = items.back().offset + items.back().bytes;
  std::vector<bool> taken(end / kPage + 1, false);
  for (size_t i = 0; i < items.size(); ++i) {
    bool gone = items[i].kind == RoomKind::kFree || evicted[i];
    if (gone) continue;
    for (size_t page = items[i].offset / kPage; page * kPage < items[i].offset + items[i].bytes;
         ++page) {
      taken[page] = true;
    }
  }
  std::vector<size_t> pages;
  for (size_t page = 0; page < end / kPage; ++page) {
    if (!taken[page]) pages.push_back(page);
  }
  return pages;
}

std::optional<uint64_t> cheapest(const std::vector<RoomItem>& items, size_t wanted) {
  std::vector<size_t> evictable;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind == RoomKind::kEvictable) evictable.push_back(i);
  }
  std::optional<uint64_t> best;
  for (size_t mask = 0; mask < size_t{1} << evictable.size(); ++mask) {
    std::vector<bool> evicted(items.size());
    uint64_t price = 0;
    for (size_t i = 0; i < evictable.size(); ++i) {
      if (!((mask >> i) & 1)) continue;
      evicted[evictable[i]] = true;
      price += items[evictable[i]].price;
    }
    if ((!best || price < *best) && free_pages(items, evicted).size() >= wanted) best = price;
  }
  return best;
}

TEST_CASE("a selection frees the pages it names, finds them where they exist, and wastes nothing") {
  test::Random random(4);
  PageSelector selector(kPage);
  uint64_t paid = 0, least = 0;
  size_t compared = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<RoomItem> items = random_items(random);
    size_t wanted = random.between(1, 8);
    const PricedLayout room(items);
    selector.lay_out(room);
    std::optional<PageSelection> selection = selector.select(wanted);
    std::optional<uint64_t> best = cheapest(items, wanted);
    if (selection.has_value() != best.has_value()) FAIL("round " << round);
    if (!selection) continue;
    std::vector<bool> evicted(items.size());
    uint64_t price = 0;
    for (size_t victim : selection->victims) {
      if (items[victim].kind != RoomKind::kEvictable) FAIL("victim " << victim);
      evicted[victim] = true;
      price += items[victim].price;
    }
    std::vector<size_t> free = free_pages(items, evicted);
    CHECK(selection->price == price);
    CHECK(selection->pages.size() == wanted);
    CHECK(
        std::includes(free.begin(), free.end(), selection->pages.begin(), selection->pages.end()));
    for (size_t victim : selection->victims) {
      evicted[victim] = false;
      if (free_pages(items, evicted).size() >= wanted) FAIL("victim " << victim << " is needless");
      evicted[victim] = true;
    }
    paid += price;
    least += *best;
    ++compared;
  }
  INFO("paid " << paid << ", least " << least << ", in " << compared << " selections");
  CHECK(compared > 2000);
  CHECK(paid < least * 11 / 10);  // greedy, measured 1.04
}

TEST_CASE("no page that is not free costs less than the least price, and one costs that") {
  test::Random random(5);
  PageSelector selector(kPage);
  size_t compared = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::vector<RoomItem> items = random_items(random);
    const PricedLayout room(items);
    selector.lay_out(room);
    const size_t free = free_pages(items, std::vector<bool>(items.size())).size();
    CHECK(selector.free_pages() == free);
    CHECK(selector.least_price() == cheapest(items, free + 1).value_or(UINT64_MAX));
    compared += selector.least_price() < UINT64_MAX;
  }
  CHECK(compared > 1000);
}

TEST_CASE("pages that the request itself will use are not taken") {
  std::vector<RoomItem> items = {{0, 4 * kPage, 0, BlockId{1}, RoomKind::kFree},
                                 {4 * kPage, 2 * kPage, 5, BlockId{2}, RoomKind::kEvictable}};
  PageSelector selector(kPage);
  const PricedLayout room(items);
  selector.lay_out(room);
  CHECK(selector.select(4)->victims.empty());
  selector.lay_out(room);
  std::optional<PageSelection> selection = selector.select(2, 0, 4 * kPage);
  REQUIRE(selection);
  CHECK(selection->victims == std::vector<size_t>{1});
  CHECK(selection->pages == std::vector<size_t>{4, 5});
  selector.lay_out(room);
  CHECK_FALSE(selector.select(3, 0, 4 * kPage));
}

TEST_CASE("what could not be had leaves no trace in the next selection") {
  test::Random random(8);
  PageSelector selector(kPage), fresh(kPage);
  size_t compared = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::vector<RoomItem> items = random_items(random);
    const PricedLayout room(items);
    const size_t end = items.back().end();
    selector.lay_out(room);
    for (int attempt = 0; attempt < 8; ++attempt) {
      const size_t keep_begin = random.below(end);
      const size_t keep_end = random.between(keep_begin + 1, end);
      const size_t wanted = random.between(1, 8);
      fresh.lay_out(room);
      const auto expected = fresh.select(wanted, keep_begin, keep_end);
      const auto selection = selector.select(wanted, keep_begin, keep_end);
      if (selection.has_value() != expected.has_value()) FAIL("round " << round);
      if (!selection) continue;
      CHECK(selection->victims == expected->victims);
      CHECK(selection->pages == expected->pages);
      compared += attempt > 0;
      for (size_t page : selection->pages) {
        CHECK((page * kPage >= keep_end || (page + 1) * kPage <= keep_begin));
      }
      break;
    }
  }
  CHECK(compared > 500);
}

TEST_CASE("small blocks are weighed with all that shares their page") {
  std::vector<RoomItem> items;
  // A page of sixteen cheap blocks, dear together; one block of the size of a page in between.
  for (size_t i = 0; i < 16; ++i) {
    items.push_back({i * 64, 64, 10, BlockId{1}, RoomKind::kEvictable});
  }
  items.push_back({kPage, kPage, 100, BlockId{2}, RoomKind::kEvictable});
  PageSelector selector(kPage);
  const PricedLayout room(items);
  selector.lay_out(room);
  std::optional<PageSelection> selection = selector.select(1);
  REQUIRE(selection);
  CHECK(selection->victims == std::vector<size_t>{16});
}

TEST_CASE("a block of many pages takes as few steps as one of three, and each has its own pages") {
  // Of three runs each: no page is shared.
  std::vector<RoomItem> items;
  for (size_t i = 0; i < 300; ++i) {
    const size_t offset = items.empty() ? 0 : items.back().end();
    items.push_back({offset, (3 + i % 5 * 1000) * kPage, 10 + i, BlockId{1}, RoomKind::kEvictable});
  }
  PageSelector selector(kPage);
  const PricedLayout room(items);
  selector.lay_out(room);
  CHECK(selector.attainable() == items.back().end() / kPage);
  const auto selection = selector.select(4003 + 3003);
  REQUIRE(selection);
  CHECK(selection->pages.size() == 4003 + 3003);
  CHECK(selection->victims == std::vector<size_t>{3, 4});  // the least price per byte
}

TEST_CASE("victims beyond the first few candidates are the same as with all in order") {
  std::vector<RoomItem> items;
  for (size_t i = 0; i < 500; ++i) {
    const size_t offset = items.empty() ? 0 : items.back().end();
    items.push_back({offset, 2 * kPage, 1000 - i, BlockId{1}, RoomKind::kEvictable});
  }
  PageSelector selector(kPage);
  const PricedLayout room(items);
  selector.lay_out(room);
  const auto selection = selector.select(600);
  REQUIRE(selection);
  std::vector<size_t> dearest_last(300);
  for (size_t k = 0; k < 300; ++k) dearest_last[k] = 200 + k;
  CHECK(selection->victims == dearest_last);
}

}  // namespace
}  // namespace tidepool
