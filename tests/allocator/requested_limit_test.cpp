// A limit on the bytes asked for, beside the one on pages; and a range that is not divided.
#include <map>

#include "allocator/budgeted_allocator.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/catch.h"
#include "tests/support/fake_reclaimer.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::FakeReclaimer;

constexpr size_t kPage = 4096;

AllocatorConfig config_of(size_t limit_bytes) {
  AllocatorConfig config;
  config.requested_limit_bytes = limit_bytes;
  config.budget_bytes = 1024 * kPage;  // abundant
  config.page_bytes = kPage;
  config.one_zone = true;
  config.allow_windows = false;
  return config;
}

struct World {
  explicit World(const AllocatorConfig& config) : allocator(space, mutex, config) {
    allocator.set_reclaimer(&reclaimer);
  }
  FakeOwner* owned(size_t bytes, uint64_t price, bool barrier = false) {
    void* address = allocator.allocate(bytes);
    FakeOwner* owner = reclaimer.add(address, bytes, price, barrier);
    DeviceLock lock(mutex);
    allocator.set_owner(address, owner);
    return owner;
  }

  SimulatedSpace space{kPage};
  DeviceMutex mutex;
  FakeReclaimer reclaimer;
  BudgetedAllocator allocator;
};

TEST_CASE("bytes asked for count, not what blocks and pages round them up to") {
  World world(config_of(10 * 65));
  std::vector<FakeOwner*> owners;
  for (int i = 0; i < 10; ++i) owners.push_back(world.owned(65, 1));
  CHECK(world.reclaimer.evicted.empty());
  CHECK(world.allocator.statistics().requested_bytes == 650);
  world.owned(1, 1);
  CHECK(world.reclaimer.evicted.size() == 1);
  CHECK(world.allocator.statistics().evictions == 1);
}

TEST_CASE("the cheapest per byte goes first, wherever it lies, one at a time") {
  World world(config_of(1000));
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
  World world(config_of(300));
  FakeOwner* first = world.owned(100, 7);
  FakeOwner* second = world.owned(100, 7);
  FakeOwner* third = world.owned(100, 7);
  first->refuses = true;
  world.owned(100, 9);
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{second});
  CHECK(third->address != nullptr);
}

TEST_CASE("what cannot fit is refused, after a wait for others") {
  World world(config_of(300));
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
  World world(config_of(kLimit));
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

TEST_CASE("one zone gives the whole range to any request") {
  AllocatorConfig config;
  config.budget_bytes = config.range_bytes = 16 * kPage;
  config.page_bytes = kPage;
  for (const bool one_zone : {false, true}) {
    config.one_zone = one_zone;
    SimulatedSpace space{kPage};
    DeviceMutex mutex;
    BudgetedAllocator allocator(space, mutex, config);
    void* small = allocator.allocate(64);
    if (one_zone) {
      void* rest = allocator.allocate(15 * kPage);
      allocator.free(rest);
    } else {
      CHECK_THROWS_AS(allocator.allocate(15 * kPage), OutOfMemory);
    }
    allocator.free(small);
    allocator.check_invariants();
    allocator.give_back_free_pages();
    allocator.check_invariants();
  }
}

}  // namespace
}  // namespace tidepool
