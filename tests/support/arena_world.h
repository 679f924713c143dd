// ArenaWorld: an Arena over simulated memory with what supplies its pages and finds their places,
// and no allocator that serves requests from it. Holds the device's lock. Not thread safe.
#pragma once

#include "allocator/arena/page_supply.h"
#include "allocator/search/site_search.h"
#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"

namespace tidepool::test {

struct ArenaWorld {
  explicit ArenaWorld(bool one_zone = false) : arena(space, config(one_zone)) {
    arena.set_reclaimer(&reclaimer);
  }
  static AllocatorConfig config(bool one_zone) {
    AllocatorConfig config = config_of(8);
    if (one_zone) config.placement = kOneZone;
    return config;
  }
  static Request request(size_t bytes) {
    return {.asked_bytes = bytes, .bytes = bytes, .zone = Zone::kTransient};
  }
  // Takes new pages for a request.
  BlockId commit(size_t bytes) {
    PagesPlan plan;
    plan.site = sites.for_new_pages(request(bytes));
    BlockId served{};
    REQUIRE(supply.serve(lock, request(bytes), plan, served) == Outcome::kServed);
    arena.heap.set_requested(served, bytes);
    return served;
  }
  // The same, with an owner.
  BlockId owned(size_t bytes, uint64_t price, bool barrier = false) {
    const BlockId served = commit(bytes);
    arena.heap[served].owner =
        reclaimer.add(arena.address_of(served).pointer(), bytes, price, barrier);
    return served;
  }

  SimulatedSpace space{kPage};
  FakeReclaimer reclaimer;
  Arena arena;
  PageSupply supply{arena};
  SiteSearch sites{arena};
  DeviceMutex mutex;
  DeviceLock lock{mutex};
};

}  // namespace tidepool::test
