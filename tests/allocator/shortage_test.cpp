#include "allocator/shortage.h"

#include "allocator/arena/out_of_memory.h"
#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

using test::config_of;
using test::FakeOwner;
using test::kPage;
using World = test::AllocatorWorld;

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

TEST_CASE("the budget that an error names is the one that was set last") {
  World world(config_of(32));
  CHECK(world.allocator.set_limit(8 * kPage + 5) == 8 * kPage);
  try {
    world.allocator.allocate(9 * kPage);
    FAIL("served");
  } catch (const OutOfMemory& error) {
    CHECK(error.report().budget_bytes == 8 * kPage);
    CHECK(error.report().limit_bytes > error.report().budget_bytes);  // the device refused nothing
  }
}

TEST_CASE("a limit below what is held comes into force with what is given back") {
  World world(config_of(32));
  void* const first = world.allocator.allocate(8 * kPage);
  void* const second = world.allocator.allocate(8 * kPage);
  CHECK(world.allocator.set_limit(4 * kPage) >= 16 * kPage);
  world.allocator.free(first);
  world.allocator.give_back_free_pages();
  CHECK_THROWS_AS(world.allocator.allocate(4 * kPage), OutOfMemory);
  world.allocator.free(second);
  world.allocator.give_back_free_pages();
  CHECK_THROWS_AS(world.allocator.allocate(5 * kPage), OutOfMemory);
  world.allocator.free(world.allocator.allocate(3 * kPage));
  CHECK(world.allocator.statistics().reserved_bytes <= 4 * kPage);
  world.allocator.check_invariants();
}

TEST_CASE("no size is too large to be refused properly") {
  World world(config_of(8));
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2, size_t{1} << 40, 9 * kPage}) {
    CHECK_THROWS_AS(world.allocator.allocate(bytes), OutOfMemory);
    CHECK_THROWS_AS(world.allocator.allocate(bytes, PlacementHint::kLongLived), OutOfMemory);
  }
  world.allocator.check_invariants();
}

}  // namespace
}  // namespace tidepool
