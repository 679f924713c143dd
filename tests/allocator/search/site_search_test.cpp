// Where new pages go, and where blocks lie in them.
#include "allocator/search/site_search.h"

#include "tests/support/arena_world.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

using test::config_of;
using test::kPage;
using World = test::AllocatorWorld;

uintptr_t page_of(const char* address) { return reinterpret_cast<uintptr_t>(address) / kPage; }

TEST_CASE("a request that begins in what is free needs fewer new pages") {
  test::ArenaWorld world(true);
  const Site first = world.sites.for_new_pages(world.request(kPage / 2));
  CHECK(first.pages_needed == 1);
  CHECK(first.begin == 0);
  CHECK(first.claim_end == kPage);
  world.commit(kPage / 2);
  const Site second = world.sites.for_new_pages(world.request(3 * kPage / 2));
  CHECK(second.begin == kPage / 2);
  CHECK(second.pages_needed == 1);
  CHECK(second.claim_end == 2 * kPage);
  // A plain hole keeps no page from being moved.
  const Site hole = world.sites.next(world.request(3 * kPage / 2), 1);
  CHECK(hole.begin == kPage);
  CHECK(hole.pages_needed == 2);
}

TEST_CASE("there is no site for more pages than are at hand, and one to move pages to") {
  test::ArenaWorld world(true);
  world.commit(6 * kPage);
  CHECK(world.sites.for_new_pages(world.request(2 * kPage)).pages_needed == 2);
  CHECK(world.sites.for_new_pages(world.request(3 * kPage)).pages_needed == 0);
  CHECK(world.sites.next(world.request(3 * kPage), 0).pages_needed == 3);
  // Other zones have no addresses here.
  for (size_t attempt = 4; attempt < SiteSearch::kAttempts; ++attempt) {
    CHECK(world.sites.next(world.request(kPage), attempt).pages_needed == 0);
  }
}

TEST_CASE("each kind of block has pages of its own, in the order of the zones") {
  World world(config_of(128));
  char* large = world.allocate(3 * kPage);
  char* medium = world.allocate(kPage / 2);
  char* kept = world.allocate(3 * kPage, PlacementHint::kLongLived);
  char* tiny = world.allocate(128);
  char* number = world.allocate(64);
  CHECK(page_of(number) < page_of(tiny));
  CHECK(page_of(tiny) < page_of(kept));
  CHECK(page_of(kept + 3 * kPage - 1) < page_of(medium));
  CHECK(page_of(medium) < page_of(large));
  // A tiny block is few bytes and often for ever: the hint makes no difference.
  CHECK(page_of(world.allocate(128, PlacementHint::kLongLived)) == page_of(tiny));
  CHECK(page_of(world.allocate(1, PlacementHint::kLongLived)) == page_of(number));
}

TEST_CASE("neighbours of one kind are tight, over the ends of pages") {
  World world(config_of(128));
  char* a = world.allocate(kPage + 64);
  char* b = world.allocate(2 * kPage + 128);
  char* c = world.allocate(kPage);
  CHECK(b == a + kPage + 64);
  CHECK(c == b + 2 * kPage + 128);
  CHECK(world.allocator.committed_bytes() == 5 * kPage);
}

}  // namespace
}  // namespace tidepool
