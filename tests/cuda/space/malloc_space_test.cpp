#include "cuda/space/malloc_space.h"

#include "allocator/budgeted_allocator.h"
#include "tests/cuda/fake_driver.h"
#include "tests/support/address_space_contract.h"
#include "tests/support/catch.h"

namespace tidepool::device {
namespace {

constexpr size_t kPage = tidepool::test::kPage;

struct World {
  static constexpr bool kHasMemory = false;
  test::FakeDriver fake;
  Driver driver{fake.functions(), 0};
  MallocSpace space{driver};
};

TEST_CASE("a range is one allocation, and pages stay where they are") {
  World world;
  Address range = world.space.reserve(8 * kPage);
  CHECK(world.fake.allocation_count() == 1);
  CHECK_FALSE(world.space.has_virtual_memory());
  HandleId handle = world.space.create_handle(kPage);
  world.space.map(range, kPage, handle);
  world.space.set_access(range, kPage);
  CHECK(world.space.move(handle, range, range + kPage, kPage) == MoveResult::kStayed);
  CHECK_THROWS_AS(world.space.release_range(range, 8 * kPage), DeviceError);
  world.space.unmap(range, kPage);
  world.space.release_handle(handle);
  world.fake.fail_at(1, 1, "cuMemFree");
  CHECK_THROWS_AS(world.space.release_range(range, 8 * kPage), DeviceError);
  world.space.release_range(range, 8 * kPage);
  CHECK(world.fake.allocation_count() == 0);
  world.space.check_invariants();
}

TEST_CASE("the rules of an address space hold without virtual memory too") {
  tidepool::test::check_rules<World>();
}

TEST_CASE("an allocator without virtual memory holds its budget from the start, and lives on it") {
  World world;
  DeviceMutex mutex;
  AllocatorConfig config;
  config.budget_bytes = 67 * kPage;
  config.page_bytes = kPage;
  config.alignment = 512;
  {
    BudgetedAllocator allocator(world.space, mutex, config);
    CHECK(allocator.statistics().budget_bytes == 64 * kPage);  // eighths of whole pages
    CHECK(allocator.committed_bytes() == 64 * kPage);
    void* large = allocator.allocate(24 * kPage);
    void* small = allocator.allocate(512);
    // More than is left in its own part of the range: another part serves.
    void* other = allocator.allocate(12 * kPage);
    CHECK_THROWS_AS(allocator.allocate(40 * kPage), OutOfMemory);
    allocator.free(large);
    void* again = allocator.allocate(30 * kPage);
    allocator.free(again);
    CHECK(allocator.give_back_free_pages() == 0);
    CHECK(allocator.committed_bytes() == 64 * kPage);
    allocator.free(small);
    allocator.free(other);
    allocator.check_invariants();
    CHECK(allocator.statistics().remaps == 0);
  }
  CHECK(world.fake.allocation_count() == 0);
  world.fake.memory_bytes = 10 * kPage;
  CHECK_THROWS_AS(BudgetedAllocator(world.space, mutex, config), DeviceError);
}

}  // namespace
}  // namespace tidepool::device
