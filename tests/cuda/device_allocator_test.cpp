// The allocator over the driver's virtual memory and events, as a job on a GPU uses it: every call
// of the driver refused in turn, at every place, and nothing may be lost.
#include <map>

#include "allocator/budgeted_allocator.h"
#include "cuda/space/virtual_memory_space.h"
#include "cuda/streams/event_order.h"
#include "tests/cuda/fake_driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_reclaimer.h"
#include "tests/support/random.h"

namespace tidepool::device {
namespace {

using tidepool::test::FakeOwner;
using tidepool::test::FakeReclaimer;

constexpr size_t kPage = size_t{2} << 20;
constexpr size_t kBudgetPages = 24;

struct World {
  World()
      : driver(fake.functions(), 1),
        pool(EventPool::make(driver)),
        order(driver, streams, pool),
        space(driver),
        allocator(space, mutex, config()) {
    fake.make_current(0);  // never the device's own
    allocator.set_stream_order(&order);
    allocator.set_reclaimer(&reclaimer);
    reclaimer.on_evict = [this](FakeOwner* owner) { live.erase(owner->address); };
    for (int i = 0; i < 3; ++i) ids.push_back(streams.id_of(i == 0 ? nullptr : fake.add_stream(1)));
  }
  static AllocatorConfig config() {
    AllocatorConfig config;
    config.budget_bytes = kBudgetPages * kPage;
    config.page_bytes = kPage;
    config.alignment = 512;
    return config;
  }

  // A little training: allocations on three streams, some of them used by another, evictions and
  // moved pages, more than the budget can hold in all.
  void step(uint64_t seed) {
    tidepool::test::Random random(seed);
    for (int i = 0; i < 60; ++i) {
      StreamId stream = ids[random.below(ids.size())];
      size_t bytes = random.chance(40) ? random.between(1, 5 * kPage) : random.between(1, 4096);
      void* address = nullptr;
      try {
        address = allocator.allocate(bytes, PlacementHint::kTransient, stream);
      } catch (const OutOfMemory&) {
        ++out_of_memory;
      } catch (const DeviceError&) {
        ++device_errors;
      }
      if (address != nullptr) {
        REQUIRE(fake.accessible(reinterpret_cast<uintptr_t>(address), 1));
        REQUIRE(fake.accessible(reinterpret_cast<uintptr_t>(address) + bytes - 1, 1));
        fake.launch(streams.stream_of(stream), 1);
        FakeOwner* owner = reclaimer.add(address, bytes, random.below(100));
        live[address] = owner;
        if (random.chance(70)) {
          DeviceLock lock(mutex);
          allocator.set_owner(address, FakeReclaimer::as_owner(owner));
        }
        if (random.chance(30)) allocator.record_stream(address, ids[random.below(ids.size())]);
      }
      if (live.size() > 20 || random.chance(30)) free_one(random.below(1000));
      if (random.chance(20)) fake.finish();
      if (random.chance(4)) allocator.give_back_free_pages();
    }
    while (!live.empty()) free_one(0);
  }
  void free_one(size_t number) {
    if (live.empty()) return;
    auto it = live.begin();
    std::advance(it, static_cast<ptrdiff_t>(number % live.size()));
    void* address = it->first;
    it->second->address = nullptr;
    live.erase(it);
    allocator.free(address);
  }
  void check_nothing_lost() {
    allocator.check_invariants();
    space.check_invariants();
    CHECK(allocator.committed_bytes() == fake.handle_bytes());
    CHECK(pool->created() == fake.event_count());
    CHECK(fake.current_device() == 0);
  }

  test::FakeDriver fake{2};
  Driver driver;
  std::shared_ptr<EventPool> pool;
  StreamTable streams;
  EventOrder order;
  VirtualMemorySpace space;
  DeviceMutex mutex;
  FakeReclaimer reclaimer;
  BudgetedAllocator allocator;
  std::vector<StreamId> ids;
  std::map<void*, FakeOwner*> live;
  size_t out_of_memory = 0, device_errors = 0;
};

TEST_CASE("a step on a device holds the budget and gives everything back") {
  World world;
  world.step(1);
  world.check_nothing_lost();
  AllocatorStatistics statistics = world.allocator.statistics();
  CHECK(statistics.remaps + statistics.windows > 0);
  CHECK(statistics.stream_waits > 0);
  CHECK(statistics.lent > 0);
  CHECK(statistics.reserved_peak_bytes <= statistics.budget_bytes);
  world.allocator.give_back_free_pages();
  CHECK(world.fake.handle_count() == 0);
  CHECK(world.allocator.statistics().awaiting_bytes == 0);
}

TEST_CASE("every n-th call of the driver refused: an error or a retry, and nothing lost") {
  size_t calls = 0;
  {
    World world;
    size_t before = world.fake.calls();
    world.step(2);
    calls = world.fake.calls() - before;
  }
  size_t failures = 0, errors = 0;
  // Once; four in a row, which outlasts every retry.
  for (size_t times : {size_t{1}, size_t{4}}) {
    World world;
    for (size_t n = 1; n <= calls; n += times == 1 ? 1 : 3) {
      world.fake.fail_at(n, times);
      world.step(2);
      failures += world.fake.failed();
      world.fake.fail_at(0);
      world.check_nothing_lost();
    }
    errors += world.device_errors + world.out_of_memory;
    // Afterwards all of the budget is there in one piece.
    void* whole = world.allocator.allocate(kBudgetPages * kPage);
    world.allocator.free(whole);
    world.allocator.give_back_free_pages();
    CHECK(world.fake.handle_count() == 0);
    CHECK(world.allocator.committed_bytes() == 0);
  }
  INFO(calls << " calls, " << failures << " failures, " << errors << " errors");
  CHECK(calls > 100);
  CHECK(failures > calls);
  CHECK(errors > 0);
}

TEST_CASE("neighbouring pages are opened by one call, and given back by one") {
  World world;
  void* block = world.allocator.allocate(10 * kPage);
  CHECK(world.fake.calls("cuMemCreate") == 10 + 1);
  CHECK(world.fake.calls("cuMemSetAccess") == 1);
  world.allocator.free(block);
  CHECK(world.allocator.give_back_free_pages() == 10 * kPage);
  CHECK(world.fake.calls("cuMemUnmap") == 1);
  CHECK(world.fake.handle_count() == 0);
  // A driver that refuses the run gets its pages one by one.
  block = world.allocator.allocate(10 * kPage);
  world.allocator.free(block);
  world.fake.fail_at(1, 1, "cuMemUnmap");
  CHECK(world.allocator.give_back_free_pages() == 10 * kPage);
  CHECK(world.fake.handle_count() == 0);
}

TEST_CASE("at the end of an allocator the device has everything back") {
  test::FakeDriver fake;
  {
    Driver driver(fake.functions(), 0);
    VirtualMemorySpace space(driver);
    DeviceMutex mutex;
    BudgetedAllocator allocator(space, mutex, World::config());
    allocator.allocate(3 * kPage);
  }
  CHECK(fake.handle_count() == 0);
  CHECK(fake.range_count() == 0);
}

}  // namespace
}  // namespace tidepool::device
