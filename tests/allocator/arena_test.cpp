// What of the arena cannot be seen through BudgetedAllocator: where blocks are put.
#include "allocator/arena.h"

#include "allocator/simulated_space.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

struct World {
  World() : arena(space, config()) {}
  static AllocatorConfig config() {
    AllocatorConfig config;
    config.budget_bytes = 64 * kPage;
    config.handle_bytes = kPage;
    return config;
  }
  char* allocate(size_t bytes, PlacementHint hint = PlacementHint::kTransient) {
    DeviceLock lock(mutex);
    return static_cast<char*>(arena.allocate(lock, bytes, hint));
  }
  static uintptr_t page_of(const char* address) {
    return reinterpret_cast<uintptr_t>(address) / kPage;
  }

  SimulatedSpace space{kPage};
  DeviceMutex mutex;
  Arena arena;
};

TEST_CASE("tiny, long-lived, medium and large blocks share no page, in this order of addresses") {
  World world;
  char* large = world.allocate(3 * kPage);
  char* medium = world.allocate(kPage / 2);
  char* kept = world.allocate(3 * kPage, PlacementHint::kLongLived);
  char* tiny = world.allocate(64);
  CHECK(world.page_of(tiny) < world.page_of(kept));
  CHECK(world.page_of(kept + 3 * kPage - 1) < world.page_of(medium));
  CHECK(world.page_of(medium) < world.page_of(large));
  // A tiny block is few bytes and often for ever: the hint makes no difference.
  CHECK(world.page_of(world.allocate(64, PlacementHint::kLongLived)) == world.page_of(tiny));
}

TEST_CASE("neighbours of one kind are tight, over the ends of pages") {
  World world;
  char* a = world.allocate(kPage + 64);
  char* b = world.allocate(2 * kPage + 128);
  char* c = world.allocate(kPage);
  CHECK(b == a + kPage + 64);
  CHECK(c == b + 2 * kPage + 128);
  CHECK(world.arena.committed_bytes() == 5 * kPage);
}

TEST_CASE("pages of one kind serve another when the budget is spent") {
  World world;
  char* large = world.allocate(64 * kPage);
  world.arena.free(large);
  world.allocate(64);
  CHECK(world.arena.statistics().remapped_bytes == kPage);
  CHECK(world.arena.committed_bytes() == 64 * kPage);
  world.arena.check_invariants();
}

TEST_CASE("the automatic handle gives a budget about a thousand pages") {
  auto pages_of = [](size_t budget_bytes) {
    SimulatedSpace space(kPage);
    AllocatorConfig config;
    config.budget_bytes = budget_bytes;
    Arena arena(space, config);
    DeviceMutex mutex;
    DeviceLock lock(mutex);
    arena.allocate(lock, 64, PlacementHint::kTransient);
    return budget_bytes / arena.committed_bytes();
  };
  CHECK(pages_of(size_t{8} << 20) == 128);
  CHECK(pages_of(size_t{1} << 30) == 1024);
  CHECK(pages_of(size_t{64} << 30) == 32768);
}

}  // namespace
}  // namespace tidepool
