// In which order the ways to make room are tried, and what is waited for.
#include "allocator/room_maker.h"

#include <vector>

#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

using test::config_of;
using test::FakeOwner;
using test::kPage;
using World = test::AllocatorWorld;

TEST_CASE("the reclaimer is asked to wait before memory is out, and the search runs again") {
  World world(config_of(8));
  FakeOwner* a = world.owned(8 * kPage, 1, true);
  world.reclaimer.on_wait = [&](DeviceLock& lock) {
    CHECK(lock.owns_lock());
    if (!a->barrier) return false;
    a->barrier = false;
    return true;
  };
  CHECK_NOTHROW(world.owned(4 * kPage, 1));
  CHECK(world.allocator.statistics().retries == 1);
  CHECK(world.reclaimer.searches == 2);
}

TEST_CASE("who waits is bounded by time, and not by how often others wake it") {
  World world(config_of(8));
  FakeOwner* a = world.owned(8 * kPage, 1, true);
  int woken = 0;
  world.reclaimer.on_wait = [&](DeviceLock&) {
    a->barrier = ++woken < 20'000;  // small operators of another thread, within a second
    return true;
  };
  CHECK_NOTHROW(world.owned(4 * kPage, 1));
  CHECK(woken == 20'000);
}

TEST_CASE("what is free comes before new pages, and these before anything is evicted") {
  World world(config_of(8));
  FakeOwner* const owned = world.owned(4 * kPage, 0);
  char* const freed = world.allocate(2 * kPage);
  world.allocate(kPage);
  world.allocator.free(freed);
  CHECK(world.allocate(kPage + 64) == freed);
  CHECK(world.allocator.committed_bytes() == 7 * kPage);
  world.allocate(kPage);
  CHECK(world.allocator.committed_bytes() == 8 * kPage);
  CHECK(world.reclaimer.evicted.empty());
  world.allocate(kPage);
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{owned});
  world.allocator.check_invariants();
}

TEST_CASE("a request larger than the range is refused without any attempt") {
  World world(config_of(8));
  world.owned(4 * kPage, 0);
  CHECK_THROWS_AS(world.allocate(1000 * kPage), OutOfMemory);
  CHECK(world.reclaimer.evicted.empty());
  CHECK(world.reclaimer.waits == 0);
}

}  // namespace
}  // namespace tidepool
