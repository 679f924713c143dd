#include "allocator/search/room_view.h"

#include "tests/support/arena_world.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

using test::kPage;

// Four owned blocks of two pages in one zone, the second of which may not be evicted.
struct World : test::ArenaWorld {
  World() : ArenaWorld(true) {
    ++arena.search_number;
    for (const uint64_t price : {7, 0, 5, 3}) {
      blocks.push_back(owned(2 * kPage, price, price == 0));
      owners.push_back(reclaimer.owners().back());
    }
  }

  RoomView view{arena};
  Request request{.asked_bytes = kPage, .bytes = kPage};
  std::vector<BlockId> blocks;
  std::vector<test::FakeOwner*> owners;
};

TEST_CASE("all blocks are listed in order, with barriers for what stays") {
  World world;
  world.view.list_all(world.request, Listing::kEvictions);
  const PricedLayout& list = world.view.list();
  REQUIRE(list.size() == 5);  // and the hole
  CHECK(list[0].price == 7);
  CHECK(list.kind(1) == RoomKind::kBarrier);
  CHECK(list.kind(2) == RoomKind::kEvictable);
  CHECK(list.kind(4) == RoomKind::kHole);
  CHECK(world.view.zone_begin(Zone::kTransient) == 0);
  CHECK(world.view.zone_end(Zone::kTransient) == 5);
  CHECK(world.view.zone_end(Zone::kMedium) == 0);
  const auto window = world.view.find_window_anywhere(3 * kPage);
  REQUIRE(window);
  const WindowPlan plan = world.view.plan_of(*window);
  CHECK(plan.victims == std::vector<BlockId>{world.blocks[2], world.blocks[3]});
  CHECK(plan.range.begin == 4 * kPage);
  CHECK(plan.range.end == 8 * kPage);
  list.check_invariants();
}

TEST_CASE("the blocks of one zone are listed as among all blocks, with barriers around them") {
  test::ArenaWorld world;
  for (const uint64_t price : {7, 5, 3}) world.owned(2 * kPage, price);
  ++world.arena.search_number;
  RoomView all{world.arena}, one{world.arena};
  for (const Zone zone : kZones) {
    INFO("zone " << static_cast<int>(zone));
    const Request request = test::ArenaWorld::request(kPage);
    all.list_all(request, Listing::kEvictions);
    one.list_zone(request, zone, Listing::kEvictions);
    one.list().check_invariants();
    CHECK(one.list().offset(one.list().size()) == world.arena.config.range_bytes);
    const size_t begin = all.zone_begin(zone), count = all.zone_end(zone) - begin;
    REQUIRE(one.zone_end(zone) - one.zone_begin(zone) >= count);
    for (size_t k = 0; k < count; ++k) {
      const RoomItem expected = all.list()[begin + k], found = one.list()[one.zone_begin(zone) + k];
      CHECK(found.block == expected.block);
      CHECK(found.offset == expected.offset);
      CHECK(found.kind == expected.kind);
      CHECK(found.price == expected.price);
    }
    const auto expected = all.find_window(zone, 3 * kPage),
               found = one.find_window(zone, 3 * kPage);
    REQUIRE(found.has_value() == expected.has_value());
    CHECK(found.has_value() == (zone == Zone::kTransient));
    if (found) CHECK(one.plan_of(*found).victims == all.plan_of(*expected).victims);
    if (found) CHECK(one.plan_of(*found).victims.size() == 2);
  }
}

TEST_CASE("what is better moved than evicted is listed so where that is asked for") {
  World world;
  world.owners[1]->move_price = 2;
  world.owners[2]->move_price = 9;
  world.view.list_all(world.request, Listing::kMoves);
  CHECK(world.view.list().kind(1) == RoomKind::kMovable);
  CHECK(world.view.list()[1].price == 2);
  CHECK(world.view.list().kind(2) == RoomKind::kEvictable);  // 5 is less than 9
  const auto window = world.view.find_window_anywhere(4 * kPage);
  REQUIRE(window);
  CHECK(world.view.moves_something(*window));
  const MovesPlan plan = world.view.moves_of(*window);
  CHECK(plan.moved == std::vector<BlockId>{world.blocks[1]});
  world.view.list_all(world.request, Listing::kEvictions);
  CHECK(world.view.list().kind(1) == RoomKind::kBarrier);
}

TEST_CASE("what is being emptied already is not looked at") {
  World world;
  const ByteRange emptied{4 * kPage, 6 * kPage};
  world.view.list_all(world.request, Listing::kEvictions, {&emptied, 1});
  CHECK(world.view.list().kind(2) == RoomKind::kBarrier);
  CHECK(world.view.list().kind(3) == RoomKind::kEvictable);
}

TEST_CASE("an excerpt has barriers for whatever lies between its blocks") {
  World world;
  Shortlist list;
  list.entries.push_back({world.arena.heap.blocks().ref(world.blocks[2]), 4 * kPage});
  world.arena.free_block(world.blocks[0]);
  world.arena.merge_free_blocks();
  CHECK(world.view.find_free_pages(StreamId::kDefault));
  world.view.list_shortlist(world.request, list);
  const PricedLayout& listed = world.view.list();
  REQUIRE(listed.size() == 4);
  CHECK(listed.kind(0) == RoomKind::kFree);
  CHECK(listed.kind(1) == RoomKind::kBarrier);
  CHECK(listed[2].price == 5);
  CHECK(listed.kind(3) == RoomKind::kBarrier);
  CHECK(listed.offset(4) == world.arena.config.range_bytes);
  // An entry whose block is gone is forgotten.
  world.arena.free_block(world.blocks[2]);
  world.view.list_shortlist(world.request, list);
  CHECK(list.entries.empty());
}

TEST_CASE("pages that move are taken in runs, from the highest address down") {
  World world;
  world.view.list_all(world.request, Listing::kEvictions);
  const PagesPlan plan = world.view.plan_of(Site{}, {2}, {0, 1, 4});
  CHECK(plan.victims == std::vector<BlockId>{world.blocks[2]});
  REQUIRE(plan.sources.size() == 2);
  CHECK(plan.sources[0].block == world.blocks[2]);
  CHECK(plan.sources[0].range.begin == 4 * kPage);
  CHECK(plan.sources[1].block == world.blocks[0]);
  CHECK(plan.sources[1].range.end == 2 * kPage);
  CHECK(plan.moved_pages == std::vector<size_t>{0, 1, 4});
}

}  // namespace
}  // namespace tidepool
