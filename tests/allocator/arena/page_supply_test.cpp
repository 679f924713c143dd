// Pages that are committed, moved and given back, by an allocator whose device calls may fail.
#include "allocator/arena/page_supply.h"

#include <chrono>
#include <thread>

#include "allocator/base/device_broken.h"
#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

using test::config_of;
using test::FakeOwner;
using test::kPage;
using World = test::AllocatorWorld;

TEST_CASE("no device call is made with the lock held") {
  World world(config_of(32));
  size_t calls = 0;
  world.space.set_before_call([&](DeviceCall) {
    ++calls;
    bool free = world.mutex.try_lock();
    if (!free) FAIL("the lock is held during a device call");
    world.mutex.unlock();
  });
  for (int i = 0; i < 16; ++i) world.owned(2 * kPage, 10, i % 2 == 0);
  world.owned(8 * kPage, 1, false);
  world.allocator.give_back_free_pages();
  CHECK(calls > 40);
}

TEST_CASE("while a request's pages are under way nobody else gets its range or its victims") {
  World world(config_of(32));
  std::vector<FakeOwner*> owners;
  for (int i = 0; i < 15; ++i) owners.push_back(world.owned(2 * kPage, 10, i % 2 == 0));
  std::vector<std::pair<Address, size_t>> taken;
  bool nested = false;
  world.space.set_before_call([&](DeviceCall call) {
    if (call != DeviceCall::kMove || nested) return;
    nested = true;
    // As another thread would, in the middle of the moves below.
    for (size_t bytes : {size_t{64}, kPage / 2, kPage / 2, kPage}) {
      void* address = world.allocator.allocate(bytes);
      taken.emplace_back(Address::of(address), bytes);
    }
    world.allocator.check_invariants();
  });
  world.owned(2 * kPage, 10);
  FakeOwner* large = world.owned(6 * kPage, 1);
  world.space.set_before_call(nullptr);
  REQUIRE(nested);
  taken.emplace_back(Address::of(large->address), large->bytes);
  for (FakeOwner* owner : owners) {
    if (owner->address != nullptr) taken.emplace_back(Address::of(owner->address), owner->bytes);
  }
  std::sort(taken.begin(), taken.end());
  for (size_t i = 0; i + 1 < taken.size(); ++i) {
    CHECK(taken[i].first + taken[i].second <= taken[i + 1].first);
  }
  for (auto& [address, bytes] : taken) CHECK(world.simulated.accessible(address, bytes));
  world.allocator.check_invariants();
}

// What is done with every device call failing in turn: growth, a window, a remap, giving back.
void exercise(World& world, size_t& served, size_t& refused) {
  std::vector<FakeOwner*> owners;
  auto request = [&](size_t bytes, uint64_t price, bool barrier) {
    try {
      owners.push_back(world.owned(bytes, price, barrier));
      ++served;
    } catch (const OutOfMemory&) {
      ++refused;
    }
    world.allocator.check_invariants();
  };
  for (int i = 0; i < 12; ++i) request(2 * kPage, 5, i % 3 == 0);
  request(12 * kPage, 5, false);
  request(100, 5, true);
  request(kPage / 2, 5, false);
  world.allocator.give_back_free_pages();
  world.allocator.check_invariants();
  request(5 * kPage, 5, false);
  for (FakeOwner* owner : owners) {
    if (owner->address != nullptr) world.free(owner);
  }
  world.allocator.check_invariants();
}

TEST_CASE("whichever device call fails, nothing is lost and a retry works") {
  size_t failures = 0;
  for (bool half_way : {false, true}) {
    for (bool for_ever : {false, true}) {
      for (size_t n = 1; n < 400; ++n) {
        World world(config_of(24));
        world.space.set_moves_fail_half_way(half_way);
        world.space.fail_at(DeviceCall::kAny, n, for_ever);
        size_t served = 0, refused = 0;
        exercise(world, served, refused);
        if (!world.space.failed()) break;
        ++failures;
        if (!for_ever) CHECK(refused == 0);  // given back and tried again
        world.space.fail_never();
        CHECK(world.allocator.committed_bytes() == world.counting.held_bytes());
        // All of the budget can be had in one piece, and all of it can be given back.
        FakeOwner* all = world.owned(24 * kPage, 1);
        CHECK(world.simulated.accessible(Address::of(all->address), 24 * kPage));
        world.free(all);
        world.allocator.give_back_free_pages();
        world.allocator.check_invariants();
        CHECK(world.counting.held_bytes() == 0);
        CHECK(world.allocator.committed_bytes() == 0);
      }
    }
  }
  CHECK(failures > 100);
}

TEST_CASE("a device that cannot move pages gives them back and commits others") {
  World world(config_of(32));
  for (int i = 0; i < 16; ++i) world.owned(2 * kPage, 5, i % 2 == 0);
  world.space.fail_at(DeviceCall::kMove, 1, true);
  FakeOwner* large = world.owned(12 * kPage, 1);
  CHECK(world.simulated.accessible(Address::of(large->address), 12 * kPage));
  CHECK(world.allocator.statistics().remaps == 0);
}

TEST_CASE("pages of one kind serve another when the budget is spent") {
  World world(config_of(64));
  world.allocator.free(world.allocate(64 * kPage));
  world.allocate(64);
  CHECK(world.statistics().remapped_bytes == kPage);
  CHECK(world.allocator.committed_bytes() == 64 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a device that refuses pages below the budget is pressure like any other") {
  World world(config_of(64));
  world.space.set_capacity(32 * kPage);
  for (int i = 0; i < 200; ++i) {
    world.owned((i % 4 + 1) * kPage, 10);
    world.allocator.check_invariants();
  }
  CHECK(world.space.held_bytes() == 32 * kPage);
  CHECK(world.statistics().limit_bytes == 32 * kPage);
  CHECK(world.statistics().budget_bytes == 64 * kPage);
  CHECK(world.statistics().evictions > 100);
  // Seldom asked: after 16 requests, then after 32, and so on.
  CHECK(world.statistics().device_refusals >= 3);
  CHECK(world.statistics().device_refusals <= 8);

  // Others give memory back: it is found out about, and used.
  world.space.set_capacity(48 * kPage);
  for (int i = 0; i < 2000 && world.allocator.committed_bytes() < 48 * kPage; ++i) {
    world.owned(2 * kPage, 10);
  }
  CHECK(world.allocator.committed_bytes() == 48 * kPage);
  world.space.set_capacity(SIZE_MAX);
  for (int i = 0; i < 2000 && world.allocator.committed_bytes() < 64 * kPage; ++i) {
    world.owned(2 * kPage, 10);
  }
  CHECK(world.allocator.committed_bytes() == 64 * kPage);
  CHECK(world.statistics().limit_bytes == 64 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a device that is broken is not taken for one that is full") {
  World world(config_of(64));
  world.owned(8 * kPage, 10);
  world.space.break_device();
  CHECK_THROWS_AS(world.owned(16 * kPage, 10), DeviceBroken);
  CHECK(world.statistics().evictions == 0);
  CHECK(world.statistics().device_refusals == 0);
  CHECK(world.statistics().limit_bytes == 64 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("before memory is out the device is asked again for what it has refused") {
  World world(config_of(64));
  world.space.set_capacity(32 * kPage);
  world.owned(32 * kPage, 10, true);
  try {
    world.owned(kPage, 10);
    FAIL("out of memory is expected");
  } catch (const OutOfMemory& error) {
    CHECK(error.report().limit_bytes == 32 * kPage);
    CHECK(std::string(error.what()).find("has given no more than 2.00 MiB") != std::string::npos);
  }
  world.space.set_capacity(64 * kPage);
  CHECK_NOTHROW(world.owned(kPage, 10));
}

TEST_CASE("where the device has refused nothing, an error says nothing of it") {
  AllocatorConfig config = config_of(8);
  config.budget_bytes += 1000;  // no whole pages
  World world(config);
  world.owned(8 * kPage, 10, true);
  try {
    world.owned(kPage, 10);
    FAIL("out of memory is expected");
  } catch (const OutOfMemory& error) {
    CHECK(error.report().limit_bytes == SIZE_MAX);
    CHECK(std::string(error.what()).find("The device") == std::string::npos);
  }
}

TEST_CASE("what the device should keep for others is taken before memory is out") {
  AllocatorConfig config = config_of(64);
  config.device_reserve_bytes = 4 * kPage;
  World world(config);
  world.space.set_capacity(32 * kPage);
  world.owned(28 * kPage, 10, true);
  CHECK_NOTHROW(world.owned(4 * kPage, 10, true));
  CHECK(world.space.held_bytes() == 32 * kPage);
  CHECK_THROWS_AS(world.owned(kPage, 10), OutOfMemory);
}

TEST_CASE("so much of the device as the settings say is left to others") {
  AllocatorConfig config = config_of(64);
  config.device_reserve_bytes = 4 * kPage;
  World world(config);
  world.space.set_capacity(32 * kPage);
  for (int i = 0; i < 60; ++i) world.owned(2 * kPage, 10);
  CHECK(world.space.held_bytes() == 28 * kPage);
  CHECK(world.statistics().evictions > 0);
  world.space.set_capacity(24 * kPage);  // others have grown: what is held stays
  for (int i = 0; i < 60; ++i) world.owned(2 * kPage, 10);
  CHECK(world.space.held_bytes() == 28 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a thread that is stopped while it moves pages makes them hardly dearer") {
  AllocatorConfig config = config_of(32);
  config.measure_remaps = true;
  config.remap_ns_per_page = 100'000;
  World world(config);
  for (int i = 0; i < 16; ++i) world.owned(2 * kPage, 10, i % 2 == 0);
  bool stopped = false;
  world.space.set_before_call([&](DeviceCall call) {
    if (call != DeviceCall::kMove || stopped) return;
    stopped = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  world.owned(8 * kPage, 1, false);
  REQUIRE(stopped);
  CHECK(world.allocator.remap_ns_per_page() > 100'000);
  CHECK(world.allocator.remap_ns_per_page() < 120'000);
}

}  // namespace
}  // namespace tidepool
