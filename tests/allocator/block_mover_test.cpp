#include "allocator/block_mover.h"

#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"
#include "tests/support/simulated_streams.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::kPage;
using Owners = std::vector<FakeOwner*>;
using World = test::SixteenPages;

TEST_CASE("what may not be evicted is moved out of the way") {
  World world;
  void* const expected = world.owners[4]->address;
  for (size_t i : {4, 6, 9}) world.free(i);
  world.owners[5]->move_price = 7;
  void* const place = static_cast<char*>(expected) + 5 * kPage;  // the only one apart: page 9
  CHECK(world.allocator.allocate(3 * kPage) == expected);
  CHECK(world.reclaimer.moved == Owners{world.owners[5]});
  CHECK(world.owners[5]->address == place);
  CHECK(world.reclaimer.evicted.empty());
  const AllocatorStatistics statistics = world.allocator.statistics();
  CHECK(statistics.moves == 1);
  CHECK(statistics.moved_bytes == kPage);
  CHECK(statistics.requested_bytes == 16 * kPage);
  CHECK(statistics.requested_peak_bytes == 16 * kPage);
  world.allocator.check_invariants();
  DeviceLock lock(world.mutex);
  CHECK(world.allocator.owner(place) == world.owners[5]);
}

// Counts what it hears of blocks: those of moves, and the others.
class CountingMoves final : public AllocatorObserver {
 public:
  void allocated(const BlockView& block) override { ++(block.moves ? to : others); }
  void freed(const BlockView& block, bool) override { ++(block.moves ? from : others); }
  void awaiting(const BlockView&, bool) override {}
  void reserved(size_t) override {}
  void page(const void*, size_t, bool) override {}
  int to = 0, from = 0, others = 0;
};

TEST_CASE("an observer hears that a block takes over the contents of another one") {
  World world;
  for (size_t i : {4, 6, 9}) world.free(i);
  world.owners[5]->move_price = 7;
  CountingMoves observer;
  world.allocator.set_observer(&observer);
  CHECK(world.allocator.allocate(3 * kPage) != nullptr);
  world.allocator.set_observer(nullptr);
  CHECK(observer.to == 1);
  CHECK(observer.from == 1);
  CHECK(observer.others == 1);
}

TEST_CASE("a block is moved or evicted, whichever costs less") {
  for (const uint64_t moving : {9, 11}) {
    World world;
    for (size_t i : {4, 6, 9}) world.free(i);
    world.owners[5]->barrier = false;
    world.owners[5]->price = 10;
    world.owners[5]->move_price = moving;
    world.allocator.allocate(3 * kPage);
    CHECK(world.reclaimer.moved == (moving < 10 ? Owners{world.owners[5]} : Owners{}));
    CHECK(world.reclaimer.evicted == (moving < 10 ? Owners{} : Owners{world.owners[5]}));
    world.allocator.check_invariants();
  }
}

TEST_CASE("a block without a place elsewhere is evicted, if it may be") {
  World world;
  for (size_t i : {4, 6}) world.free(i);
  world.owners[5]->barrier = false;
  world.owners[5]->move_price = 1;
  world.allocator.allocate(3 * kPage);
  CHECK(world.reclaimer.moved.empty());
  CHECK(world.reclaimer.evicted == Owners{world.owners[5]});
  world.allocator.check_invariants();
}

TEST_CASE("a request is refused where neither places nor victims suffice, and nothing is lost") {
  World world;
  for (size_t i : {4, 6}) world.free(i);
  world.owners[5]->move_price = 1;
  CHECK_THROWS_AS(world.allocator.allocate(3 * kPage), OutOfMemory);
  CHECK(world.reclaimer.moved.empty());
  CHECK(world.allocator.statistics().allocated_bytes == 14 * kPage);
  world.allocator.allocate(kPage);
  world.allocator.allocate(kPage);
  world.allocator.check_invariants();
}

TEST_CASE("several blocks are moved, each to the smallest place that takes it") {
  World world;
  // Pages 2 to 5 make room; page 9 takes one of theirs, pages 12 and 13 one more.
  for (size_t i : {2, 4, 9, 12, 13}) world.free(i);
  world.owners[3]->move_price = 2;
  world.owners[5]->move_price = 2;
  world.allocator.allocate(4 * kPage);
  CHECK(world.reclaimer.moved == Owners{world.owners[3], world.owners[5]});
  CHECK(world.owners[3]->address == static_cast<char*>(world.owners[8]->address) + kPage);
  CHECK(world.owners[5]->address == static_cast<char*>(world.owners[11]->address) + kPage);
  CHECK(world.allocator.statistics().allocated_bytes == 15 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("where no place is left, the cheapest elsewhere is evicted for one") {
  World world;
  for (size_t i : {4, 6}) world.free(i);
  world.owners[5]->move_price = 1;
  for (size_t i : {9, 11}) world.owners[i]->barrier = false;
  world.owners[11]->price = 20;
  void* const expected = static_cast<char*>(world.owners[3]->address) + kPage;
  void* const place = world.owners[11]->address;
  CHECK(world.allocator.allocate(3 * kPage) == expected);
  CHECK(world.reclaimer.evicted == Owners{world.owners[11]});
  CHECK(world.reclaimer.moved == Owners{world.owners[5]});
  CHECK(world.owners[5]->address == place);
  CHECK(world.allocator.statistics().allocated_bytes == 16 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a place for a large block is made of several smaller ones") {
  World world;
  for (size_t i : {4, 5}) world.free(i);
  FakeOwner* const large = world.owned(2 * kPage, 100, true);
  for (size_t i : {3, 6}) world.free(i);
  large->move_price = 1;
  for (size_t i : {9, 10, 12}) world.owners[i]->barrier = false;
  world.owners[12]->price = 1;  // alone it is too small
  void* const place = world.owners[9]->address;
  world.allocator.allocate(4 * kPage);
  CHECK(world.reclaimer.evicted == Owners{world.owners[9], world.owners[10]});
  CHECK(world.reclaimer.moved == Owners{large});
  CHECK(large->address == place);
  world.allocator.check_invariants();
}

TEST_CASE("a place for a large block is made by moving smaller ones in turn") {
  World world;
  // Two pages in one block that has to move, and victims of one page only, each beside what stays.
  for (size_t i : {4, 5}) world.free(i);
  FakeOwner* const large = world.owned(2 * kPage, 100, true);
  large->move_price = 1;
  for (size_t i : {3, 9, 12}) world.owners[i]->barrier = false;
  world.owners[10]->move_price = 1;
  void* const expected = world.owners[3]->address;
  void* const small_place = world.owners[12]->address;
  void* const large_place = world.owners[9]->address;
  CHECK(world.allocator.allocate(3 * kPage) == expected);
  CHECK(world.reclaimer.moved == Owners{world.owners[10], large});
  CHECK(world.owners[10]->address == small_place);
  CHECK(large->address == large_place);
  CHECK(world.reclaimer.evicted.size() == 3);
  CHECK(world.allocator.statistics().allocated_bytes == 16 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a victim for a place that cannot be evicted after all is passed over") {
  World world;
  for (size_t i : {4, 6}) world.free(i);
  world.owners[5]->move_price = 1;
  for (size_t i : {9, 11}) world.owners[i]->barrier = false;
  world.owners[9]->price = 1;
  world.owners[9]->refuses = true;
  world.allocator.allocate(3 * kPage);
  CHECK(world.reclaimer.evicted == Owners{world.owners[11]});
  CHECK(world.reclaimer.moved == Owners{world.owners[5]});
  world.allocator.check_invariants();
}

TEST_CASE("a device that cannot order the use of a place ends the search for one") {
  test::SimulatedStreams streams{2};  // outlives the allocator
  World world;
  world.allocator.set_stream_order(&streams);
  for (size_t i : {4, 6}) world.free(i);
  world.owners[5]->move_price = 1;
  world.owners[9]->barrier = false;
  world.allocator.record_stream(world.owners[9]->address, StreamId{1});
  streams.fail_at(1, 1'000'000);
  CHECK_THROWS(world.allocator.allocate(3 * kPage));
  CHECK(streams.failed());
  CHECK(world.reclaimer.evicted == Owners{world.owners[9]});
  CHECK(world.reclaimer.moved.empty());
  streams.fail_at(0);
  world.allocator.check_invariants();
}

TEST_CASE("a block freed while another is moved is left alone") {
  World world;
  for (size_t i : {2, 4, 9, 12, 13}) world.free(i);
  world.owners[3]->move_price = 2;
  world.owners[5]->move_price = 2;
  world.reclaimer.on_move = [&](DeviceLock& lock, FakeOwner*, void*) {
    lock.unlock();
    if (world.owners[5]->address != nullptr) world.free(5);
    lock.lock();
    return true;
  };
  world.allocator.allocate(4 * kPage);
  CHECK(world.reclaimer.moved == Owners{world.owners[3]});
  CHECK(world.allocator.statistics().allocated_bytes == 14 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a block that another stream begins to use while one is moved is left alone") {
  test::SimulatedStreams streams{2};  // outlives the allocator
  World world;
  world.allocator.set_stream_order(&streams);
  for (size_t i : {2, 4, 9, 12, 13}) world.free(i);
  world.owners[3]->move_price = 2;
  world.owners[5]->move_price = 2;
  world.reclaimer.on_move = [&](DeviceLock& lock, FakeOwner*, void*) {
    lock.unlock();
    world.allocator.record_stream(world.owners[5]->address, StreamId{1});
    lock.lock();
    return true;
  };
  CHECK_THROWS_AS(world.allocator.allocate(4 * kPage), OutOfMemory);
  CHECK(world.reclaimer.moved == Owners{world.owners[3]});
  CHECK(world.allocator.statistics().allocated_bytes == 11 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a move that is refused leaves the block where it is") {
  World world;
  for (size_t i : {4, 6, 9}) world.free(i);
  world.owners[5]->move_price = 7;
  int asked = 0;
  world.reclaimer.on_move = [&](DeviceLock&, FakeOwner*, void*) {
    ++asked;
    return false;
  };
  CHECK_THROWS_AS(world.allocator.allocate(3 * kPage), OutOfMemory);
  CHECK(asked > 0);
  CHECK(asked < 100);
  CHECK(world.allocator.statistics().allocated_bytes == 13 * kPage);
  CHECK(world.allocator.statistics().requested_bytes == 13 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("where pages can be moved, contents are moved only if that does not help") {
  World world(true);
  // Half a page is free in each of four pages: no whole page can be had.
  Owners halves;
  for (size_t i : {4, 5, 6, 7}) world.free(i);
  for (int i = 0; i < 8; ++i) halves.push_back(world.owned(kPage / 2, 100, true));
  for (size_t i : {1, 3, 5, 7}) {
    world.allocator.free(halves[i]->address);
    halves[i]->address = nullptr;
  }
  CHECK_THROWS_AS(world.allocator.allocate(kPage), OutOfMemory);
  for (FakeOwner* half : halves) half->move_price = 1;
  world.allocator.allocate(kPage);
  CHECK(world.reclaimer.moved.size() == 1);
  world.allocator.check_invariants();
  world.owners[0]->barrier = false;
  world.allocator.allocate(kPage);  // a page to evict: nothing is moved
  CHECK(world.reclaimer.moved.size() == 1);
  CHECK(world.reclaimer.evicted == Owners{world.owners[0]});
}

TEST_CASE("where moves are preferred they come before pages, and pages where they do not help") {
  for (const Preference preferred : {Preference::kMoves, Preference::kCheapest}) {
    const bool moves = preferred == Preference::kMoves;
    World world(true);
    world.reclaimer.preferred = preferred;
    // One page is free. A window of two has a block that may move there; others may only go.
    world.free(1);
    world.owners[5]->move_price = 3;
    for (size_t i : {6, 11}) world.owners[i]->barrier = false;
    world.owners[11]->price = 20;
    world.allocator.allocate(2 * kPage);
    CHECK(world.reclaimer.moved == (moves ? Owners{world.owners[5]} : Owners{}));
    CHECK(world.reclaimer.evicted == Owners{world.owners[moves ? 6 : 11]});
    CHECK(world.allocator.statistics().windows == (moves ? 1 : 0));
    world.allocator.check_invariants();
    // No window, and no place to move to: two pages that lie apart.
    for (size_t i : {9, 13}) world.owners[i]->barrier = false;
    world.owners[8]->move_price = 3;
    world.allocator.allocate(2 * kPage);
    CHECK(world.reclaimer.moved.size() == (moves ? 1 : 0));
    CHECK(world.reclaimer.evicted.size() == 3);
    world.allocator.check_invariants();
  }
}

TEST_CASE("others are evicted to make places for what moves, where that is preferred and cheaper") {
  for (const uint64_t elsewhere : {20, 94, 96}) {
    World world(true);
    world.reclaimer.preferred = Preference::kPlaces;
    // Beside what costs little to evict lies what costs much, and may move.
    for (const size_t i : {5, 6, 11}) world.owners[i]->barrier = false;
    world.owners[5]->price = 1;
    world.owners[6]->price = 100;
    world.owners[6]->move_price = 5;
    world.owners[11]->price = elsewhere;
    void* const place = world.owners[11]->address;
    world.allocator.allocate(2 * kPage);
    const bool trades = elsewhere + 5 < 100;
    CHECK(world.reclaimer.moved == (trades ? Owners{world.owners[6]} : Owners{}));
    CHECK(world.reclaimer.evicted ==
          Owners{world.owners[trades ? 11 : 5], world.owners[trades ? 5 : 6]});
    if (trades) CHECK(world.owners[6]->address == place);
    world.allocator.check_invariants();
  }
}

TEST_CASE("contents move before pages where a page costs far more to map elsewhere than to copy") {
  for (const uint64_t page_ns : {5, 10, 11}) {
    const bool moves = page_ns > 2 * 5;
    AllocatorConfig config = World::config(true);
    config.remap_ns_per_page = page_ns;
    test::AllocatorWorld world(config);
    world.reclaimer.copy_price = 5;
    Owners owners;
    for (int i = 0; i < 16; ++i) owners.push_back(world.owned(kPage, 100, true));
    // Two pages that are free lie apart, and what lies beside one of them may move to the other.
    for (const size_t i : {1, 4}) world.free(owners[i]);
    owners[5]->move_price = 3;
    world.allocator.allocate(2 * kPage);
    CHECK(world.reclaimer.moved == (moves ? Owners{owners[5]} : Owners{}));
    CHECK(world.allocator.statistics().remaps == (moves ? 0 : 1));
    world.allocator.check_invariants();
  }
}

TEST_CASE("contents move before pages only where looking at all blocks takes less than pages do") {
  constexpr uint64_t kCopyNs = 5;
  constexpr uint64_t kSearchNs = 17 * 50;  // sixteen blocks and the hole behind them
  for (const bool shortlists : {false, true}) {
    for (const uint64_t saved_ns : {uint64_t{30}, kSearchNs - 10, kSearchNs + 10}) {
      AllocatorConfig config = World::config(true);
      config.search_ns_per_block = 50;
      config.drain_ns = 2 * 2 * kCopyNs + saved_ns;  // of two pages
      test::AllocatorWorld world(config, shortlists);
      world.reclaimer.copy_price = kCopyNs;
      Owners owners;
      for (int i = 0; i < 16; ++i) owners.push_back(world.owned(kPage, 100, true));
      // Two pages that are free lie apart, and what lies beside one of them may move to the other.
      for (const size_t i : {1, 4}) world.free(owners[i]);
      owners[5]->move_price = 3;
      world.allocator.allocate(2 * kPage);
      // Without shortlists, moving pages needs a search of all blocks as well.
      const bool moves = !shortlists || saved_ns > kSearchNs;
      CHECK(world.reclaimer.moved.empty() == !moves);
      CHECK(world.allocator.statistics().remaps == (moves ? 0 : 1));
      world.allocator.check_invariants();
    }
  }
}

TEST_CASE("the wait before pages move counts once, and makes few pages dearer than many") {
  for (const bool waits : {false, true}) {
    for (const size_t count : {2, 8}) {
      AllocatorConfig config = World::config(true);
      config.remap_ns_per_page = 5;
      config.drain_ns = waits ? 40 : 0;
      test::AllocatorWorld world(config);
      world.reclaimer.copy_price = 5;
      Owners owners;
      for (int i = 0; i < 16; ++i) owners.push_back(world.owned(kPage, 100, true));
      // So many free pages lie apart, and what lies between may move.
      for (size_t k = 0; k < count; ++k) {
        world.free(owners[2 * k]);
        owners[2 * k + 1]->move_price = 3;
      }
      world.allocator.allocate(count * kPage);
      const bool moves = waits && 40 + count * 5 > 2 * count * 5;
      CHECK(world.reclaimer.moved.empty() == !moves);
      CHECK(world.allocator.statistics().remaps == (moves ? 0 : 1));
      world.allocator.check_invariants();
    }
  }
}

TEST_CASE("pages that are dear move where nothing else helps") {
  AllocatorConfig config = World::config(true);
  config.remap_ns_per_page = 1000;
  test::AllocatorWorld world(config);
  world.reclaimer.copy_price = 5;
  Owners owners;
  for (int i = 0; i < 16; ++i) owners.push_back(world.owned(kPage, 100, true));
  for (const size_t i : {1, 4}) world.free(owners[i]);
  world.allocator.allocate(2 * kPage);
  CHECK(world.allocator.statistics().remaps == 1);
  world.allocator.check_invariants();
}

}  // namespace
}  // namespace tidepool
