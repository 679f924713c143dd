#include "allocator/space/page_transaction.h"

#include "allocator/space/simulated_space.h"
#include "tests/support/catch.h"
#include "tests/support/faulty_space.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

struct World {
  World() : space(simulated), base(space.reserve(16 * kPage)), pages(16, 8) {}
  PageTransaction transaction() { return PageTransaction(space, base, kPage); }
  bool run(PageTransaction& transaction) {
    transaction.run();
    transaction.apply(pages);
    pages.check_invariants();
    simulated.check_invariants();
    CHECK(pages.committed() * kPage == simulated.handle_bytes_total());
    return transaction.succeeded();
  }
  void commit(size_t from, size_t count) {
    PageTransaction t = transaction();
    for (size_t page = from; page < from + count; ++page) t.commit(pages, page);
    REQUIRE(run(t));
  }
  bool accessible(size_t page) {
    return pages.page(page).state == PageTable::PageState::kAccessible &&
           simulated.accessible(base + page * kPage, kPage);
  }

  SimulatedSpace simulated{kPage};
  FaultySpace space;
  Address base;
  PageTable pages;
};

TEST_CASE("neighbouring pages are opened by one call") {
  World world;
  world.commit(2, 5);
  CHECK(world.space.calls(DeviceCall::kMap) == 5);
  CHECK(world.space.calls(DeviceCall::kSetAccess) == 1);
  for (size_t page = 2; page < 7; ++page) CHECK(world.accessible(page));
}

TEST_CASE("pages move and are given back") {
  World world;
  world.commit(0, 4);
  PageTransaction t = world.transaction();
  t.move(world.pages, 0, 10);
  t.move(world.pages, 2, 11);
  t.commit(world.pages, 12);
  CHECK(world.run(t));
  CHECK(t.moved() == 2);
  CHECK(world.pages.committed() == 5);
  for (size_t page : {1u, 3u, 10u, 11u, 12u}) CHECK(world.accessible(page));
  PageTransaction back = world.transaction();
  back.give_back(world.pages, 10);
  back.give_back(world.pages, 1);
  CHECK(world.run(back));
  CHECK(back.given_back() == 2);
  CHECK(world.pages.committed() == 3);
}

TEST_CASE("a page is given back also when its neighbour moves away in the same transaction") {
  World world;
  world.commit(0, 3);
  PageTransaction t = world.transaction();
  t.move(world.pages, 1, 10);
  t.give_back(world.pages, 2);
  CHECK(world.run(t));
  CHECK(t.given_back() == 1);
  CHECK(world.pages.page(2).state == PageTable::PageState::kEmpty);
  CHECK(world.pages.committed() == 2);
}

TEST_CASE("what a failed sequence has reached stays and is counted") {
  for (bool half_way : {false, true}) {
    for (size_t n = 1; n < 40; ++n) {
      World world;
      world.commit(0, 4);
      world.space.set_moves_fail_half_way(half_way);
      world.space.fail_at(DeviceCall::kAny, n);
      PageTransaction t = world.transaction();
      t.move(world.pages, 0, 10);
      t.move(world.pages, 2, 11);
      t.commit(world.pages, 12);
      t.give_back(world.pages, 3);
      bool succeeded = world.run(t);
      CHECK(succeeded == !world.space.failed());
      CHECK(t.error().empty() == succeeded);
      if (succeeded) break;
    }
  }
}

TEST_CASE("pages whose access and unmapping both fail are kept, counted, and tried again") {
  World world;
  world.space.fail_at(DeviceCall::kAny, 3, true);  // create, map, then all fails
  PageTransaction t = world.transaction();
  t.commit(world.pages, 5);
  CHECK_FALSE(world.run(t));
  CHECK(world.pages.page(5).state == PageTable::PageState::kInaccessible);
  CHECK(world.pages.committed() == 1);
  world.space.fail_never();
  PageTransaction back = world.transaction();
  back.give_back(world.pages, 5);
  CHECK(world.run(back));
  CHECK(world.pages.committed() == 0);
}

TEST_CASE("a spare handle is used before a new one is created") {
  World world;
  world.space.fail_at(DeviceCall::kMap, 1);
  PageTransaction t = world.transaction();
  t.commit(world.pages, 5);
  CHECK_FALSE(world.run(t));
  CHECK(world.pages.spare_count() == 1);
  world.commit(5, 1);
  CHECK(world.space.calls(DeviceCall::kCreateHandle) == 1);
  CHECK(world.pages.committed() == 1);
}

}  // namespace
}  // namespace tidepool
