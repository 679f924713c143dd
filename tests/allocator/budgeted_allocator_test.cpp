#include "allocator/budgeted_allocator.h"

#include <cstring>
#include <map>

#include "allocator/faulty_space.h"
#include "allocator/fence.h"
#include "allocator/private_host_space.h"
#include "allocator/simulated_space.h"
#include "tests/support/catch.h"
#include "tests/support/counting_space.h"
#include "tests/support/death.h"
#include "tests/support/fake_reclaimer.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::FakeReclaimer;

constexpr size_t kPage = 64 << 10;

AllocatorConfig config_of(size_t pages) {
  AllocatorConfig config;
  config.budget_bytes = pages * kPage;
  config.handle_bytes = kPage;
  config.trace_events = 64;
  return config;
}

// An allocator over simulated memory, its calls counted and made to fail at will.
struct World {
  explicit World(const AllocatorConfig& config)
      : counting(simulated, config.budget_bytes), space(counting), allocator(space, mutex, config) {
    allocator.set_reclaimer(&reclaimer);
  }
  FakeOwner* owned(size_t bytes, uint64_t price, bool barrier = false,
                   PlacementHint hint = PlacementHint::kTransient) {
    void* address = allocator.allocate(bytes, hint);
    FakeOwner* owner = reclaimer.add(address, bytes, price, barrier);
    DeviceLock lock(mutex);
    allocator.set_owner(address, owner);
    return owner;
  }
  void free(FakeOwner* owner) {
    allocator.free(owner->address);
    owner->address = nullptr;
  }

  SimulatedSpace simulated{kPage};
  test::CountingSpace counting;
  FaultySpace space;
  DeviceMutex mutex;
  FakeReclaimer reclaimer;
  BudgetedAllocator allocator;
};

TEST_CASE("blocks are aligned, apart, and know their owner and size") {
  World world(config_of(64));
  FakeOwner* a = world.owned(100, 1);
  FakeOwner* b = world.owned(1, 1);
  FakeOwner* c = world.owned(3 * kPage + 1, 1);
  for (FakeOwner* owner : {a, b, c}) {
    CHECK(reinterpret_cast<uintptr_t>(owner->address) % 64 == 0);
    CHECK(world.allocator.contains(owner->address));
    DeviceLock lock(world.mutex);
    CHECK(world.allocator.owner(owner->address) == owner);
  }
  {
    DeviceLock lock(world.mutex);
    CHECK(world.allocator.block_bytes(a->address) == 128);
    CHECK(world.allocator.block_bytes(c->address) == 3 * kPage + 64);
  }
  int outside = 0;
  CHECK_FALSE(world.allocator.contains(&outside));
  CHECK_FALSE(world.allocator.contains(nullptr));
  AllocatorStatistics statistics = world.allocator.statistics();
  CHECK(statistics.requested_bytes == 100 + 1 + 3 * kPage + 1);
  CHECK(statistics.allocated_bytes == 128 + 64 + 3 * kPage + 64);
  CHECK(statistics.reserved_bytes == world.counting.held_bytes());
  CHECK(statistics.allocations == 3);
  for (FakeOwner* owner : {a, b, c}) world.free(owner);
  statistics = world.allocator.statistics();
  CHECK(statistics.allocated_bytes == 0);
  CHECK(statistics.requested_bytes == 0);
  CHECK(statistics.requested_peak_bytes == 102 + 3 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a freed block comes back at once for the same size") {
  World world(config_of(64));
  void* a = world.allocator.allocate(1000);
  world.allocator.free(a);
  size_t calls = world.counting.device_calls();
  CHECK(world.allocator.allocate(1000) == a);
  CHECK(world.counting.device_calls() == calls);
}

TEST_CASE("blocks in bins are merged before the arena grows") {
  World world(config_of(64));
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(world.allocator.allocate(kPage / 8));
  for (void* block : blocks) world.allocator.free(block);
  CHECK(world.allocator.allocate(kPage / 2) == blocks[0]);
  CHECK(world.allocator.committed_bytes() == kPage);
}

TEST_CASE("while the budget has room nothing is evicted") {
  World world(config_of(32));
  for (int i = 0; i < 16; ++i) world.owned(2 * kPage, 0);
  CHECK(world.allocator.statistics().evictions == 0);
  CHECK(world.allocator.statistics().reserved_bytes == 32 * kPage);
}

TEST_CASE("the cheapest window goes, and exactly its range is handed out") {
  AllocatorConfig config = config_of(32);
  config.allow_remap = false;
  World world(config);
  std::vector<FakeOwner*> owners;
  for (uint64_t i = 0; i < 16; ++i) owners.push_back(world.owned(2 * kPage, i == 9 ? 1 : 10 + i));
  void* expected = owners[9]->address;
  FakeOwner* served = world.owned(2 * kPage, 1, true);
  CHECK(served->address == expected);
  CHECK(world.reclaimer.evicted == std::vector<FakeOwner*>{owners[9]});
  // Two neighbours: 10 + 11 is the cheapest pair left of it.
  expected = owners[0]->address;
  served = world.owned(4 * kPage, 1, true);
  CHECK(served->address == expected);
  CHECK(world.allocator.statistics().windows == 2);
  CHECK(world.allocator.statistics().evicted_bytes == 6 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("scattered victims serve one large request, their pages moved together") {
  World world(config_of(32));
  std::vector<FakeOwner*> owners;
  for (int i = 0; i < 16; ++i) owners.push_back(world.owned(2 * kPage, 5, i % 2 == 0));
  FakeOwner* large = world.owned(16 * kPage, 1);  // as much as can be evicted, in eight pieces
  CHECK(world.reclaimer.evicted.size() == 8);
  AllocatorStatistics statistics = world.allocator.statistics();
  CHECK(statistics.remaps == 1);
  CHECK(statistics.remapped_bytes == 16 * kPage);
  CHECK(statistics.reserved_bytes == 32 * kPage);
  CHECK(world.simulated.accessible(Address::of(large->address), 16 * kPage));
  for (int i = 0; i < 16; i += 2) {
    CHECK(world.simulated.accessible(Address::of(owners[static_cast<size_t>(i)]->address), 1));
  }
  world.allocator.check_invariants();
}

TEST_CASE("the cheaper of a window and scattered blocks is taken") {
  World world(config_of(32));
  std::vector<FakeOwner*> owners;
  for (int i = 0; i < 16; ++i) owners.push_back(world.owned(2 * kPage, i % 4 == 0 ? 1 : 100));
  world.owned(4 * kPage, 1);
  CHECK(world.allocator.statistics().remaps == 1);  // 1 + 1 scattered against 1 + 100 in a row
  CHECK(world.allocator.statistics().evictions == 2);
}

TEST_CASE("a refused eviction is a barrier for the rest of the search") {
  World world(config_of(32));
  std::vector<FakeOwner*> owners;
  for (int i = 0; i < 16; ++i) owners.push_back(world.owned(2 * kPage, i == 3 ? 1 : 10));
  owners[3]->refuses = true;
  world.owned(2 * kPage, 1);
  CHECK(owners[3]->address != nullptr);
  CHECK(world.reclaimer.evicted.size() == 1);
  CHECK(world.reclaimer.searches == 1);
  world.allocator.check_invariants();
}

TEST_CASE("an eviction may free other blocks, victims of the same search among them") {
  World world(config_of(32));
  std::vector<FakeOwner*> owners;
  for (int i = 0; i < 16; ++i) owners.push_back(world.owned(2 * kPage, 10));
  world.reclaimer.on_evict = [&](FakeOwner*) {
    for (size_t i : {1u, 2u, 9u}) {
      if (owners[i]->address == nullptr) continue;
      world.allocator.free_locked(owners[i]->address);
      owners[i]->address = nullptr;
    }
  };
  FakeOwner* large = world.owned(12 * kPage, 1);
  CHECK(world.simulated.accessible(Address::of(large->address), 12 * kPage));
  world.allocator.check_invariants();
}

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

TEST_CASE("an uncounted commit is caught at the first byte over the budget") {
  World world(config_of(8));
  Address elsewhere = world.counting.reserve(kPage);
  HandleId uncounted = world.counting.create_handle(kPage);
  world.counting.map(elsewhere, kPage, uncounted);
  for (int i = 0; i < 7; ++i) world.owned(kPage, 1);
  CHECK(world.counting.held_bytes() == 8 * kPage);
  CHECK(world.allocator.committed_bytes() == 7 * kPage);
  CHECK_THROWS_AS(world.counting.create_handle(kPage), test::BudgetBroken);
}

TEST_CASE("a block freed behind a fence is nobody's until it has passed") {
  World world(config_of(8));
  auto fence = std::make_shared<HostFence>();
  FakeOwner* a = world.owned(4 * kPage, 1, true);
  FakeOwner* b = world.owned(4 * kPage, 1, true);
  world.allocator.free_after(a->address, fence);
  world.allocator.check_invariants();
  fence->pass();
  CHECK(world.allocator.allocate(4 * kPage) == a->address);
  (void)b;
  world.allocator.check_invariants();
}

TEST_CASE("a request that fits in no other way waits for a fence") {
  struct PassesWhenWaitedFor final : Fence {
    bool passed() override { return waited; }
    void wait() override { waited = true; }
    bool waited = false;
  };
  World world(config_of(8));
  auto fence = std::make_shared<PassesWhenWaitedFor>();
  FakeOwner* a = world.owned(8 * kPage, 1, true);
  world.allocator.free_after(a->address, fence);
  CHECK(world.allocator.allocate(8 * kPage) == a->address);
  CHECK(fence->waited);
}

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

TEST_CASE("out of memory says what a user has to know, and leaves everything usable") {
  World world(config_of(32));
  FakeOwner* pinned = world.owned(20 * kPage, 1, true);
  FakeOwner* cheap = world.owned(8 * kPage, 1, false);
  try {
    world.allocator.allocate(16 * kPage + 5);
    FAIL("served");
  } catch (const OutOfMemory& error) {
    const OutOfMemoryReport& report = error.report();
    CHECK(report.requested_bytes == 16 * kPage + 5);
    CHECK(report.budget_bytes == 32 * kPage);
    CHECK(report.allocated_bytes == 28 * kPage);
    CHECK(report.largest_servable_bytes == 12 * kPage);
    CHECK(report.lower_bound_budget_bytes == 37 * kPage);
    CHECK(report.pinned_bytes() == 20 * kPage);
    CHECK(report.evictable_bytes() == 8 * kPage);
    std::string text = error.what();
    CHECK(text.find("1.00 MiB (1048581 bytes)") != std::string::npos);
    CHECK(text.find("barriers: 1.25 MiB (1310720 bytes)") != std::string::npos);
    CHECK(text.find("768.00 KiB (786432 bytes)") != std::string::npos);
    CHECK(text.find("No budget below 2.31 MiB") != std::string::npos);
  }
  CHECK(cheap->address != nullptr);  // nothing was evicted in vain
  CHECK(world.allocator.statistics().out_of_memory == 1);
  world.allocator.check_invariants();
  CHECK_NOTHROW(world.owned(12 * kPage, 1));
  (void)pinned;
}

TEST_CASE("no size is too large to be refused properly") {
  World world(config_of(8));
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2, size_t{1} << 40, 9 * kPage}) {
    CHECK_THROWS_AS(world.allocator.allocate(bytes), OutOfMemory);
    CHECK_THROWS_AS(world.allocator.allocate(bytes, PlacementHint::kLongLived), OutOfMemory);
  }
  world.allocator.check_invariants();
}

TEST_CASE("settings that cannot work are refused by name") {
  auto refused = [](auto change) {
    SimulatedSpace space(kPage);
    DeviceMutex mutex;
    AllocatorConfig config = config_of(8);
    change(config);
    try {
      BudgetedAllocator allocator(space, mutex, config);
      return std::string("accepted");
    } catch (const std::invalid_argument& error) {
      return std::string(error.what()).substr(0, std::string(error.what()).find(':'));
    }
  };
  CHECK(refused([](auto& c) { c.alignment = 48; }) == "alignment");
  CHECK(refused([](auto& c) { c.handle_bytes = 4096; }) == "handle_bytes");
  CHECK(refused([](auto& c) { c.budget_bytes = kPage - 1; }) == "budget_bytes");
  CHECK(refused([](auto& c) { c.budget_bytes = SIZE_MAX; }) == "budget_bytes");
  CHECK(refused([](auto& c) { c.range_bytes = kPage; }) == "range_bytes");
}

TEST_CASE("misuse ends the process with a message") {
  World world(config_of(8));
  void* a = world.allocator.allocate(256);
  world.allocator.allocate(256);
  std::string message;
  CHECK(test::dies([&] { world.allocator.free(static_cast<char*>(a) + 64); }, &message));
  CHECK(test::dies([&] { world.allocator.free(&message); }));
  CHECK(test::dies([&] { world.allocator.free(nullptr); }));
  world.allocator.free(a);
  CHECK(test::dies([&] { world.allocator.free(a); }, &message));
  CHECK(message.find("freed twice") != std::string::npos);
}

TEST_CASE("freed and evicted bytes are poisoned where asked for") {
  PrivateHostSpace space(kPage);
  DeviceMutex mutex;
  AllocatorConfig config = config_of(8);
  config.poison = true;
  BudgetedAllocator allocator(space, mutex, config);
  auto* bytes = static_cast<unsigned char*>(allocator.allocate(256));
  allocator.allocate(256);
  std::memset(bytes, 1, 256);
  allocator.free(bytes);
  CHECK(bytes[0] == 0xFB);
  CHECK(bytes[255] == 0xFB);
}

TEST_CASE("a forked child has no budget, evicts nothing and leaves the parent's memory alone") {
  PrivateHostSpace space(kPage);
  DeviceMutex mutex;
  FakeReclaimer reclaimer;
  BudgetedAllocator allocator(space, mutex, config_of(8));
  allocator.set_reclaimer(&reclaimer);
  auto* kept = static_cast<char*>(allocator.allocate(8 * kPage));
  kept[0] = 1;
  {
    DeviceLock lock(mutex);
    allocator.set_owner(kept, reclaimer.add(kept, 8 * kPage, 1));
  }
  allocator.before_fork();
  int status = test::status_of_child([&] {
    allocator.after_fork_in_child();
    auto* more = static_cast<char*>(allocator.allocate(8 * kPage));
    std::memset(more, 3, 8 * kPage);
    kept[0] = 2;
    allocator.free(more);
    allocator.check_invariants();
    return reclaimer.evicted.empty() ? 42 : 1;
  });
  allocator.after_fork_in_parent();
  CHECK(status == 42);
  CHECK(kept[0] == 1);
  allocator.check_invariants();
}

TEST_CASE("the trace tells what happened, oldest first") {
  World world(config_of(8));
  FakeOwner* a = world.owned(8 * kPage, 1);
  world.owned(8 * kPage, 1);
  CHECK(a->address == nullptr);
  std::string text = world.allocator.trace_text();
  size_t commit = text.find("commit"), evict = text.find("evict"), window = text.find("window");
  CHECK(commit < evict);
  CHECK(evict < window);
  CHECK(window != std::string::npos);
}

}  // namespace
}  // namespace tidepool
