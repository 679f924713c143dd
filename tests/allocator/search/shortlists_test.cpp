// What a list holds, against a sort of all blocks; how long it lasts; what it allows to be paid.
#include "allocator/search/shortlists.h"

#include <algorithm>
#include <optional>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/fake_reclaimer.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 1024;
constexpr uint64_t kAnyPrice = UINT64_MAX;  // was paid when the list was made
const test::FakeReclaimer reclaimer;        // lets all blocks be listed

// Blocks of given sizes, and a room that lists them.
struct Layout {
  explicit Layout(const std::vector<RoomItem>& given) : blocks(size_t{1} << 40) {
    std::vector<RoomItem> items = given;
    for (RoomItem& item : items) item.block = blocks.append(item.bytes, Zone::kTransient);
    room = PricedLayout(items);
  }
  BlockList blocks;
  PricedLayout room;
};

std::vector<RoomItem> evictable(size_t count, size_t bytes) {
  std::vector<RoomItem> items;
  for (size_t k = 0; k < count; ++k) {
    items.push_back({0, bytes, 100 * (k + 1), BlockId{}, RoomKind::kEvictable});
  }
  return items;
}

// The price by byte of what the block gives, worked out page by page.
std::optional<double> price_by_byte(const RoomItem& item, bool in_zone, const Wanted& wanted) {
  size_t bytes = in_zone ? std::min(item.bytes, wanted.bytes) : 0;
  size_t whole = 0;
  for (size_t page = item.offset / kPage; wanted.page_bytes > 0 && page * kPage < item.end();
       ++page) {
    whole += page * kPage >= item.offset && (page + 1) * kPage <= item.end() ? kPage : 0;
  }
  size_t paged = 0;
  while (wanted.page_bytes > 0 && paged < wanted.bytes) paged += kPage;
  bytes = std::max(bytes, std::min(whole, paged));
  if (bytes == 0) return std::nullopt;
  return static_cast<double>(item.price) / static_cast<double>(bytes);
}

TEST_CASE("a list holds the cheapest by what they give, and its limit is what was left out") {
  test::Random random(7);
  size_t made = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<RoomItem> items;
    for (size_t count = random.between(1, 300); items.size() < count;) {
      items.push_back({0, 64 * random.between(1, 64), random.between(1, 1000), BlockId{},
                       random.chance(80) ? RoomKind::kEvictable : RoomKind::kBarrier});
    }
    const Layout layout(items);
    const PricedLayout& room = layout.room;
    const size_t zone_begin = random.below(room.size() + 1);
    const size_t zone_end = random.between(zone_begin, room.size());
    const Wanted wanted{64 * random.between(1, 100), random.chance(70) ? kPage : 0,
                        Zone::kTransient};
    std::vector<std::pair<double, size_t>> all;
    for (size_t i = 0; i < room.size(); ++i) {
      if (room.kind(i) != RoomKind::kEvictable) continue;
      const auto price = price_by_byte(room[i], zone_begin <= i && i < zone_end, wanted);
      if (price) all.emplace_back(*price, i);
    }
    std::sort(all.begin(), all.end());

    Shortlists lists;
    lists.choose(room, zone_begin, zone_end, layout.blocks, wanted, nullptr, 1, kAnyPrice,
                 reclaimer);
    lists.check_invariants();
    lists.count_miss();
    const Shortlist* list = lists.find(wanted);
    REQUIRE((list != nullptr) == (all.size() >= Shortlists::kShare));
    if (list == nullptr) continue;
    ++made;
    const size_t count = std::min(Shortlists::kEntries, all.size() / Shortlists::kPart);
    std::set<size_t> expected;
    for (size_t k = 0; k < count; ++k) expected.insert(room.offset(all[k].second));
    std::set<size_t> found;
    for (const Shortlist::Entry& entry : list->entries) {
      found.insert(entry.offset);
      CHECK(layout.blocks.current(entry.block));
      CHECK(layout.blocks[entry.block.id].offset == entry.offset);
    }
    CHECK(found == expected);
    const double limit = all[count].first * static_cast<double>(wanted.bytes);
    CHECK(static_cast<double>(list->limit_by_window(wanted)) <= limit);
    CHECK(static_cast<double>(list->limit_by_window(wanted)) > limit - 1);
  }
  CHECK(made > 100);
}

TEST_CASE("where only pages serve, small blocks are listed with what shares their pages") {
  // Four in each page, one of them dear in all pages but the last.
  std::vector<RoomItem> items = evictable(64, kPage / 4);
  for (size_t k = 0; k < items.size(); ++k) items[k].price = k % 4 == 1 && k < 60 ? 1000 : 1;
  const Layout layout(items);
  const Wanted wanted{3 * kPage, kPage, Zone::kTransient};
  const size_t outside = layout.room.size();
  Shortlists lists;
  lists.choose(layout.room, outside, outside, layout.blocks, wanted, nullptr, 1, kAnyPrice,
               reclaimer);
  lists.count_miss();
  CHECK(lists.find(wanted) == nullptr);
  PageSelector selector(kPage);
  selector.lay_out(layout.room);
  lists.choose(layout.room, outside, outside, layout.blocks, wanted, &selector, 12, kAnyPrice,
               reclaimer);
  lists.check_invariants();
  const Shortlist* const list = lists.find(wanted);
  REQUIRE(list != nullptr);
  REQUIRE(list->entries.size() == 64 / Shortlists::kPart);
  for (size_t k = 0; k < 12; ++k) CHECK(list->entries[k].offset == k * kPage / 4);
  for (size_t k = 12; k < 16; ++k) CHECK(list->entries[k].offset == (60 + k - 12) * kPage / 4);
  CHECK(list->limit_by_pages(wanted) == 3 * 1003);
}

TEST_CASE("a list lasts for one miss for each so many blocks, and no longer") {
  const Layout layout(evictable(Shortlists::kShare * 3, kPage));
  const Wanted wanted{kPage, kPage, Zone::kTransient};
  Shortlists lists;
  lists.count_miss();
  CHECK(lists.find(wanted) == nullptr);  // none was made
  lists.choose(layout.room, 0, layout.room.size(), layout.blocks, wanted, nullptr, 1, kAnyPrice,
               reclaimer);
  for (int miss = 0; miss < 3; ++miss) {
    lists.count_miss();
    CHECK(lists.find(wanted) != nullptr);
  }
  lists.count_miss();
  CHECK(lists.find(wanted) == nullptr);
}

TEST_CASE("what may not be listed is left out, and has no list last longer") {
  Layout layout(evictable(Shortlists::kShare * 4, kPage));
  const size_t half = layout.room.size() / 2;  // the cheaper one
  test::FakeOwner unlisted;
  unlisted.may_be_shortlisted = false;
  for (size_t k = 0; k < half; ++k) layout.blocks[layout.room[k].block].owner = &unlisted;
  const Wanted wanted{kPage, kPage, Zone::kTransient};
  Shortlists lists;
  lists.choose(layout.room, 0, layout.room.size(), layout.blocks, wanted, nullptr, 1, kAnyPrice,
               reclaimer);
  const Shortlist* const list = lists.find(wanted);
  REQUIRE(list != nullptr);
  CHECK(list->entries.size() == half / Shortlists::kPart);
  CHECK(list->entries.front().offset == half * kPage);
  lists.count_miss();
  lists.count_miss();
  CHECK(lists.find(wanted) != nullptr);
  lists.count_miss();
  CHECK(lists.find(wanted) == nullptr);
}

TEST_CASE(
    "a list of many serves sizes near its own, the nearest first, at no more than its limit") {
  const Layout layout(evictable(Shortlists::kMany, kPage));
  Shortlists lists;
  const auto wanted = [](size_t units) { return Wanted{units * kPage, kPage, Zone::kTransient}; };
  const auto make = [&](size_t units) {
    lists.choose(layout.room, 0, layout.room.size(), layout.blocks, wanted(units), nullptr, 1,
                 kAnyPrice, reclaimer);
  };
  make(12);
  const Shortlist* const list = lists.find(wanted(12));
  REQUIRE(list != nullptr);
  for (const size_t units : {10, 11, 13, 16}) CHECK(lists.find(wanted(units)) == list);
  for (const size_t units : {1, 9, 17, 24}) CHECK(lists.find(wanted(units)) == nullptr);
  static_assert(Shortlists::kMany / Shortlists::kListed == 32);
  // 3300 for each page: that is the price of the cheapest block that was left out.
  CHECK(list->limit_by_window(wanted(10)) == 33000);
  CHECK(list->limit_by_pages(wanted(10)) == 33000);
  CHECK(list->limit_by_window(wanted(12)) == 39600);
  CHECK(list->limit_by_window(wanted(16)) == 39600);
  CHECK(list->limit_by_pages(wanted(16)) == 39600);
  make(14);
  CHECK(lists.find(wanted(12)) == list);
  CHECK(lists.find(wanted(11)) == list);
  REQUIRE(lists.find(wanted(15)) != nullptr);
  CHECK(lists.find(wanted(15))->wanted == wanted(14));
}

TEST_CASE("no more is paid than twice what was taken when the list was made") {
  std::vector<RoomItem> items = evictable(Shortlists::kShare, kPage);
  for (RoomItem& item : items) item.price = 1000;
  const Layout layout(items);
  const Wanted wanted{kPage, kPage, Zone::kTransient};
  Shortlists lists;
  for (const uint64_t taken_price : {uint64_t{0}, uint64_t{10}, uint64_t{499}, uint64_t{501}}) {
    lists.choose(layout.room, 0, layout.room.size(), layout.blocks, wanted, nullptr, 1, taken_price,
                 reclaimer);
    const Shortlist* const list = lists.find(wanted);
    REQUIRE(list != nullptr);
    CHECK(list->limit_by_window(wanted) == std::min<uint64_t>(2 * taken_price, 1000));
    CHECK(list->limit_by_pages(wanted) == std::min<uint64_t>(2 * taken_price, 1000));
  }
}

TEST_CASE("a list of few serves its own size only") {
  const Layout layout(evictable(Shortlists::kMany - 1, kPage));
  Shortlists lists;
  const Wanted wanted{12 * kPage, kPage, Zone::kTransient};
  lists.choose(layout.room, 0, layout.room.size(), layout.blocks, wanted, nullptr, 1, kAnyPrice,
               reclaimer);
  CHECK(lists.find(wanted) != nullptr);
  CHECK(lists.find({12 * kPage + 64, kPage, Zone::kTransient}) == nullptr);
}

TEST_CASE("where a request takes many blocks, a list holds enough for several") {
  const Layout layout(evictable(2000, kPage));
  const Wanted wanted{12 * kPage, 0, Zone::kTransient};
  Shortlists lists;
  lists.choose(layout.room, 0, layout.room.size(), layout.blocks, wanted, nullptr, 12, kAnyPrice,
               reclaimer);
  const Shortlist* const list = lists.find(wanted);
  REQUIRE(list != nullptr);
  CHECK(list->entries.size() == Shortlists::kRequests * 12);
}

TEST_CASE("each size and zone has a list of its own; the one that ends first makes way") {
  const Layout layout(evictable(Shortlists::kShare * 4, kPage));
  Shortlists lists;
  const auto wanted = [](size_t k) { return Wanted{kPage << k, kPage, Zone::kTransient}; };
  for (size_t k = 0; k <= Shortlists::kLists; ++k) {
    lists.choose(layout.room, 0, layout.room.size(), layout.blocks, wanted(k), nullptr, 1,
                 kAnyPrice, reclaimer);
    lists.check_invariants();
    if (k == 0) lists.count_miss();  // the first list ends one miss before the others
  }
  CHECK(lists.find(wanted(0)) == nullptr);
  for (size_t k = 1; k <= Shortlists::kLists; ++k) CHECK(lists.find(wanted(k)) != nullptr);
  CHECK(lists.find({kPage << 1, kPage, Zone::kMedium}) == nullptr);
  CHECK(lists.find({kPage << 1, 0, Zone::kTransient}) == nullptr);
  // Made again, it takes no second place.
  lists.choose(layout.room, 0, layout.room.size(), layout.blocks, wanted(1), nullptr, 1, kAnyPrice,
               reclaimer);
  lists.check_invariants();
  for (size_t k = 1; k <= Shortlists::kLists; ++k) CHECK(lists.find(wanted(k)) != nullptr);
}

TEST_CASE("the greatest prices overflow no limit") {
  std::vector<RoomItem> items = evictable(Shortlists::kShare, 1);
  for (RoomItem& item : items) item.price = Price::kGreatest;
  const Layout layout(items);
  Shortlists lists;
  const Wanted wanted{size_t{1} << 50, 0, Zone::kTransient};
  lists.choose(layout.room, 0, layout.room.size(), layout.blocks, wanted, nullptr, 1, kAnyPrice,
               reclaimer);
  const Shortlist* list = lists.find(wanted);
  REQUIRE(list != nullptr);
  CHECK(list->limit_by_window(wanted) == UINT64_MAX / 2);
}

}  // namespace
}  // namespace tidepool
