#include "allocator/budgeted_allocator.h"

#include <cstring>
#include <map>
#include <vector>

#include "allocator/space/private_host_space.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"
#include "tests/support/counting_space.h"
#include "tests/support/death.h"
#include "tests/support/fake_reclaimer.h"

namespace tidepool {
namespace {

using test::config_of;
using test::FakeOwner;
using test::FakeReclaimer;
using test::kPage;
using World = test::AllocatorWorld;

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

// An allocator that poisons, over real memory.
struct Poisoned {
  static AllocatorConfig config() {
    AllocatorConfig config = config_of(8);
    config.poison = true;
    return config;
  }
  unsigned char* allocate() { return static_cast<unsigned char*>(allocator.allocate(256)); }

  PrivateHostSpace space{kPage};
  DeviceMutex mutex;
  BudgetedAllocator allocator{space, mutex, config()};
};

TEST_CASE("freed bytes are poisoned where asked for") {
  Poisoned world;
  unsigned char* const bytes = world.allocate();
  world.allocate();
  std::memset(bytes, 1, 256);
  world.allocator.free(bytes);
  CHECK(bytes[0] == 0xFB);
  CHECK(bytes[255] == 0xFB);
}

TEST_CASE("two fresh blocks are poisoned with different bytes") {
  Poisoned world;
  unsigned char* const bytes = world.allocate();
  const unsigned char first = bytes[0];
  CHECK(bytes[255] == first);
  world.allocator.free(bytes);
  unsigned char* const again = world.allocate();
  CHECK(again == bytes);
  CHECK(again[0] != first);
  CHECK(again[255] == again[0]);
}

// Counts the blocks whose bytes are poisoned by the time that it hears that they are free.
struct PoisonObserver final : RelayingObserver {
  PoisonObserver() : RelayingObserver(nullptr) {}
  void freed(const BlockView& block, bool) override {
    const auto* bytes = static_cast<const unsigned char*>(block.address);
    ++heard;
    poisoned += bytes[0] == 0xFB && bytes[block.requested_bytes - 1] == 0xFB;
  }
  int heard = 0, poisoned = 0;
};

TEST_CASE("freed, evicted and moved bytes are poisoned before anybody hears of it") {
  PrivateHostSpace space(kPage);
  DeviceMutex mutex;
  FakeReclaimer reclaimer;
  AllocatorConfig config = config_of(2);
  config.placement = kOneZone;
  config.poison = true;
  BudgetedAllocator allocator(space, mutex, config);
  allocator.set_reclaimer(&reclaimer);
  reclaimer.allocator = &allocator;
  PoisonObserver observer;
  allocator.set_observer(&observer);
  std::vector<FakeOwner*> halves;
  for (int k = 0; k < 4; ++k) {
    void* const address = allocator.allocate(kPage / 2);
    std::memset(address, 1, kPage / 2);
    halves.push_back(reclaimer.add(address, kPage / 2, 100, true));
    DeviceLock lock(mutex);
    allocator.set_owner(address, halves.back());
  }
  allocator.free(halves[1]->address);
  allocator.free(halves[3]->address);
  CHECK(observer.poisoned == 2);
  halves[2]->move_price = 1;
  {
    DeviceLock lock(mutex);
    CHECK(allocator.compact(lock, StreamId::kDefault) == 1);  // to where the second was
  }
  CHECK(reclaimer.moved == std::vector<FakeOwner*>{halves[2]});
  CHECK(observer.poisoned == 3);
  halves[0]->barrier = false;
  allocator.allocate(kPage);
  allocator.allocate(kPage / 2);
  CHECK(reclaimer.evicted == std::vector<FakeOwner*>{halves[0]});
  CHECK(observer.poisoned == 4);
  CHECK(observer.heard == 4);
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

TEST_CASE("one zone gives the whole range to any request") {
  AllocatorConfig config;
  config.budget_bytes = config.range_bytes = 16 * kPage;
  config.page_bytes = kPage;
  for (const bool one_zone : {false, true}) {
    config.placement = one_zone ? kOneZone : Placement();
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

AllocatorConfig one_zone() {
  AllocatorConfig config = config_of(64);
  config.placement = kOneZone;
  return config;
}

TEST_CASE("once something was evicted, a large block touches no page that it need not") {
  World world(one_zone());
  const auto at = [&](size_t bytes) { return world.allocator.offset(world.allocate(bytes)); };
  world.owned(63 * kPage, 1), world.owned(kPage, 1000);
  world.allocator.free(world.allocate(63 * kPage));
  CHECK(at(kPage / 2) == 0);
  CHECK(at(3 * kPage) == kPage);
  CHECK(at(3 * kPage / 2) == 4 * kPage);
  CHECK(at(3 * kPage / 2) == 11 * kPage / 2);  // in two pages as well
  CHECK(at(kPage / 4) == kPage / 2);           // in the gap
  world.allocator.check_invariants();
  // In new pages: what the last one has to spare lies before the block, not after it.
  world.allocator.give_back_free_pages();
  CHECK(at(3 * kPage / 4) == 7 * kPage);
  CHECK(at(2 * kPage) == 8 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("a block lies at a page's start in the window that goes for it") {
  World world(one_zone());
  world.owned(kPage / 2, 1000);
  std::vector<void*> halves(5);
  for (void*& half : halves) half = world.allocate(kPage / 2);
  for (const size_t k : {0, 1}) world.allocator.free(halves[k]);
  world.owned(kPage, 10);  // over a page's end
  for (const size_t k : {2, 3, 4}) world.allocator.free(halves[k]);
  world.owned(3 * kPage / 2, 10);
  for (int k = 0; k < 61; ++k) world.owned(kPage, 1000);
  CHECK(world.allocator.offset(world.allocate(2 * kPage)) == kPage);
  CHECK(world.reclaimer.evicted.size() == 2);
  CHECK(world.statistics().windows == 1);
  world.allocator.check_invariants();
}

}  // namespace
}  // namespace tidepool
