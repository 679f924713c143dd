// DTR's loop in place of windows and selections: who goes, in which order, and when it ends.
#include <vector>

#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::kPage;

struct World : test::AllocatorWorld {
  explicit World(bool allow_remap, size_t slab_pages = 0)
      : AllocatorWorld(config(allow_remap, slab_pages)) {}
  static AllocatorConfig config(bool allow_remap, size_t slab_pages) {
    AllocatorConfig config = test::config_of(slab_pages > 0 ? slab_pages : 8);
    config.range_bytes = slab_pages * kPage;  // no more addresses than memory
    config.evict_singly = true;
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

}  // namespace
}  // namespace tidepool
