#include "remat/simulate/memory/comparison_strategy.h"

#include <utility>
#include <vector>

#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::remat {
namespace {

using test::FakeOwner;
using test::kPage;

// The strategy is there before the allocator.
struct Loop {
  ComparisonStrategy strategy{{.evict_singly = true}};
};

struct World : Loop, test::AllocatorWorld {
  explicit World(bool allow_remap, size_t slab_pages = 0)
      : AllocatorWorld(config(strategy, allow_remap, slab_pages)) {}
  static AllocatorConfig config(ComparisonStrategy& strategy, bool allow_remap, size_t slab_pages) {
    AllocatorConfig config = test::config_of(slab_pages > 0 ? slab_pages : 8);
    config.range_bytes = slab_pages * kPage;  // no more addresses than memory
    config.strategy = &strategy;
    config.allow_remap = allow_remap;
    return config;
  }
  FakeOwner* owned(size_t pages, uint64_t price, bool barrier = false) {
    return AllocatorWorld::owned(pages * kPage, price, barrier);
  }
};

TEST_CASE("the least price by byte goes first, wherever it lies, until a block fits") {
  World world(false);
  FakeOwner* a = world.owned(2, 200);  // 100 a page
  FakeOwner* b = world.owned(1, 90);
  world.owned(1, 500);
  FakeOwner* d = world.owned(1, 70);
  world.owned(1, 600);
  FakeOwner* f = world.owned(2, 160);  // 80 a page
  world.allocator.allocate(3 * kPage);
  // d and f leave holes of one and two pages, b one more: only a makes three pages of b's one.
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{d, f, b, a});
  CHECK(world.reclaimer.searches == 4);  // priced anew for each
  world.allocator.check_invariants();
}

TEST_CASE("nobody goes where a free block fits") {
  World world(false);
  FakeOwner* a = world.owned(4, 100);
  world.owned(4, 200);
  world.allocator.free(a->address);
  a->address = nullptr;
  world.allocator.allocate(4 * kPage);
  CHECK(world.reclaimer.evicted.empty());
}

TEST_CASE("equal prices go by address") {
  World world(false);
  FakeOwner* a = world.owned(4, 100);
  world.owned(4, 100);
  world.allocator.allocate(2 * kPage);
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{a});
}

TEST_CASE("where barriers leave no room in one piece, everything goes in vain") {
  World world(false, 16);
  for (int k = 0; k < 8; ++k) {
    world.owned(1, 10);
    world.owned(1, 0, true);
  }
  CHECK_THROWS_AS(world.allocator.allocate(2 * kPage), OutOfMemory);
  CHECK(world.reclaimer.evicted.size() == 8);
}

TEST_CASE("where pages can be moved, as many go as are wanted") {
  World world(true);
  std::vector<FakeOwner*> owners;
  for (uint64_t k = 0; k < 4; ++k) {
    owners.push_back(world.owned(1, 40 - k));
    world.owned(1, 0, true);
  }
  world.allocator.allocate(2 * kPage);
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{owners[3], owners[2]});
  CHECK(world.allocator.statistics().remaps == 1);
  world.allocator.check_invariants();
}

TEST_CASE("who refuses to go is passed over") {
  World world(false);
  FakeOwner* a = world.owned(4, 100);
  FakeOwner* b = world.owned(4, 200);
  a->refuses = true;
  world.allocator.allocate(4 * kPage);
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{b});
}

TEST_CASE("a price comes with the free bytes on both sides") {
  World world(false);
  FakeOwner* a = world.owned(1, 100);
  FakeOwner* b = world.owned(2, 100);
  FakeOwner* c = world.owned(3, 100);
  FakeOwner* d = world.owned(2, 1);
  for (FakeOwner* owner : {a, c}) {
    world.allocator.free(owner->address);
    owner->address = nullptr;
  }
  world.allocator.allocate(5 * kPage);
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{d});
  CHECK(b->free_beside_bytes == 4 * kPage);
  CHECK(d->free_beside_bytes == 3 * kPage);
}

// Pages abound: what limits is the bytes asked for.
AllocatorConfig fungible(ComparisonStrategy& strategy) {
  AllocatorConfig config;
  config.strategy = &strategy;
  config.budget_bytes = 64 * kPage;
  config.page_bytes = kPage;
  config.placement = kOneZone;
  config.allow_windows = false;
  return config;
}

struct Limit {
  explicit Limit(size_t bytes) : strategy({.requested_limit_bytes = bytes}) {}
  ComparisonStrategy strategy;
};

struct FungibleWorld : Limit, test::AllocatorWorld {
  explicit FungibleWorld(size_t limit_bytes)
      : Limit(limit_bytes), AllocatorWorld(fungible(strategy)) {}
};

TEST_CASE("bytes asked for count, not what blocks and pages round them up to") {
  FungibleWorld world(10 * 65);
  std::vector<FakeOwner*> owners;
  for (int i = 0; i < 10; ++i) owners.push_back(world.owned(65, 1));
  CHECK(world.reclaimer.evicted.empty());
  CHECK(world.allocator.statistics().requested_bytes == 650);
  world.owned(1, 1);
  CHECK(world.reclaimer.evicted.size() == 1);
  CHECK(world.allocator.statistics().evictions == 1);
}

TEST_CASE("the cheapest per byte goes first, wherever it lies, one at a time") {
  FungibleWorld world(1000);
  FakeOwner* dear = world.owned(100, 900);    // 9 a byte
  FakeOwner* large = world.owned(400, 1200);  // 3
  FakeOwner* small = world.owned(100, 200);   // 2
  FakeOwner* pinned = world.owned(400, 1, true);
  world.owned(150, 5000);
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{small, large});
  CHECK(world.reclaimer.searches == 2);  // priced anew for each
  CHECK(dear->address != nullptr);
  CHECK(pinned->address != nullptr);
  CHECK(world.allocator.statistics().requested_bytes == 650);
}

TEST_CASE("ties go to the lower address, and a refused victim is passed over") {
  FungibleWorld world(300);
  FakeOwner* first = world.owned(100, 7);
  FakeOwner* second = world.owned(100, 7);
  FakeOwner* third = world.owned(100, 7);
  first->refuses = true;
  world.owned(100, 9);
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{second});
  CHECK(third->address != nullptr);
}

TEST_CASE("what cannot fit is refused, after a wait for others") {
  FungibleWorld world(300);
  FakeOwner* pinned = world.owned(200, 1, true);
  CHECK_THROWS_AS(world.allocator.allocate(301), OutOfMemory);
  CHECK_THROWS_AS(world.allocator.allocate(101), OutOfMemory);
  CHECK(world.reclaimer.waits == 2);
  world.reclaimer.on_wait = [&](DeviceLock&) {
    world.allocator.free_locked(std::exchange(pinned->address, nullptr));
    return true;
  };
  CHECK(world.allocator.allocate(300) != nullptr);
}

TEST_CASE("a full limit is met to the byte, whatever the sizes") {
  constexpr size_t kLimit = 100'000;
  FungibleWorld world(kLimit);
  test::Random random(7);
  for (int i = 0; i < 2000; ++i) {
    const size_t bytes = 1 + random.below(i % 3 == 0 ? 20'000 : 500);
    world.owned(bytes, 1 + random.below(1000));
    REQUIRE(world.allocator.statistics().requested_bytes <= kLimit);
  }
  CHECK(world.allocator.statistics().remaps == 0);
  CHECK(world.allocator.statistics().windows == 0);
  world.allocator.check_invariants();
}

struct Ends {
  ComparisonStrategy strategy{{.partition = true}};
};

struct PartitionedWorld : Ends, test::AllocatorWorld {
  explicit PartitionedWorld(const AllocatorConfig& config = test::config_of(64))
      : AllocatorWorld(with(strategy, config)) {}
  static AllocatorConfig with(ComparisonStrategy& strategy, AllocatorConfig config) {
    config.strategy = &strategy;
    return config;
  }
  char* allocate(size_t bytes, End end = End::kLow) {
    strategy.set_end(end);
    return AllocatorWorld::allocate(bytes);
  }
};

TEST_CASE("what is cheap comes from the high end of a free block, and of a window") {
  PartitionedWorld world;
  char* whole = world.allocate(10 * kPage);
  world.allocate(kPage);
  world.allocator.free(whole);
  world.allocator.check_invariants();
  char* dear = world.allocate(2 * kPage);
  char* cheap = world.allocate(3 * kPage, End::kHigh);
  CHECK(dear == whole);
  CHECK(cheap == whole + 7 * kPage);
  CHECK(world.allocate(2 * kPage) == whole + 2 * kPage);
  CHECK(world.allocate(kPage, End::kHigh) == whole + 6 * kPage);
  // An end is for one request.
  CHECK(world.allocator.allocate(kPage) == whole + 4 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a cheap block lies at the high end of the window that goes for it") {
  AllocatorConfig config = test::config_of(64);
  config.allow_remap = false;
  for (const End end : {End::kLow, End::kHigh}) {
    PartitionedWorld world(config);
    char* const low = static_cast<char*>(world.owned(32 * kPage, 1)->address);
    world.allocate(32 * kPage);
    CHECK(world.allocate(5 * kPage, end) == (end == End::kHigh ? low + 27 * kPage : low));
    world.allocator.check_invariants();
  }
}

}  // namespace
}  // namespace tidepool::remat
