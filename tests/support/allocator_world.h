// AllocatorWorld: a BudgetedAllocator over simulated memory, whose device calls are counted and
// made to fail at will, with a reclaimer whose owners have the prices that a test gives them.
// Not thread safe beyond what the allocator is.
#pragma once

#include <vector>

#include "allocator/budgeted_allocator.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/counting_space.h"
#include "tests/support/fake_reclaimer.h"
#include "tests/support/faulty_space.h"

namespace tidepool::test {

constexpr size_t kPage = 64 << 10;

inline AllocatorConfig config_of(size_t pages) {
  AllocatorConfig config;
  config.budget_bytes = pages * kPage;
  config.page_bytes = kPage;
  return config;
}

struct AllocatorWorld {
  explicit AllocatorWorld(const AllocatorConfig& config, bool shortlists = false)
      : counting(simulated, config.budget_bytes), space(counting), allocator(space, mutex, config) {
    reclaimer.shortlists = shortlists;
    allocator.set_reclaimer(&reclaimer);
    reclaimer.allocator = &allocator;
  }
  FakeOwner* owned(size_t bytes, uint64_t price, bool barrier = false,
                   PlacementHint hint = PlacementHint::kTransient) {
    void* address = allocator.allocate(bytes, hint);
    FakeOwner* owner = reclaimer.add(address, bytes, price, barrier);
    DeviceLock lock(mutex);
    allocator.set_owner(address, owner);
    return owner;
  }
  // A block without an owner.
  char* allocate(size_t bytes, PlacementHint hint = PlacementHint::kTransient) {
    return static_cast<char*>(allocator.allocate(bytes, hint));
  }
  void free(FakeOwner* owner) {
    allocator.free(owner->address);
    owner->address = nullptr;
  }
  AllocatorStatistics statistics() const { return allocator.statistics(); }

  SimulatedSpace simulated{kPage};
  CountingSpace counting;
  FaultySpace space;
  DeviceMutex mutex;
  FakeReclaimer reclaimer;
  BudgetedAllocator allocator;
};

// Sixteen pages in one zone, full of blocks of one page each that may not be evicted.
struct SixteenPages : AllocatorWorld {
  explicit SixteenPages(bool allow_remap = false) : AllocatorWorld(config(allow_remap)) {
    for (int i = 0; i < 16; ++i) owners.push_back(owned(kPage, 100, true));
  }
  static AllocatorConfig config(bool allow_remap) {
    AllocatorConfig config = config_of(16);
    config.range_bytes = (allow_remap ? 32 : 16) * kPage;
    config.placement = kOneZone;
    config.allow_remap = allow_remap;
    return config;
  }
  void free(size_t index) { AllocatorWorld::free(owners[index]); }

  std::vector<FakeOwner*> owners;
};

}  // namespace tidepool::test
