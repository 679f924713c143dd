// Requests that are served from what an earlier search found cheapest: that few blocks are priced,
// what may be taken, and when all are looked at again.
#include <algorithm>
#include <vector>

#include "allocator/search/shortlists.h"
#include "tests/support/allocator_world.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

using test::FakeOwner;
using test::kPage;

constexpr size_t kBlocks = 256;

struct World : test::AllocatorWorld {
  explicit World(bool shortlists, bool pages = true, size_t bytes = kPage, size_t blocks = kBlocks,
                 uint64_t search_ns_per_block = 0)
      : AllocatorWorld(config(pages, bytes, blocks, search_ns_per_block), shortlists),
        block_bytes(bytes) {
    for (size_t k = 0; k < blocks; ++k) owned(block_bytes, 1000 + 10 * ((k * 101) % blocks));
    REQUIRE(reclaimer.evicted.empty());
  }
  static AllocatorConfig config(bool pages, size_t block_bytes, size_t blocks,
                                uint64_t search_ns_per_block) {
    AllocatorConfig config;
    config.search_ns_per_block = search_ns_per_block;
    config.budget_bytes = blocks * block_bytes;
    config.page_bytes = kPage;
    config.allow_remap = pages;
    config.allow_moves = false;  // where contents move, every search is of all blocks
    return config;
  }
  // A request that misses, and whose block stays. Returns what went for it.
  std::vector<FakeOwner*> miss(size_t bytes) {
    reclaimer.evicted.clear();
    allocator.allocate(bytes);
    allocator.check_invariants();
    return reclaimer.evicted;
  }
  FakeOwner* cheapest_left() {
    FakeOwner* best = nullptr;
    for (FakeOwner* owner : reclaimer.owners()) {
      if (owner->address == nullptr || owner->barrier) continue;
      if (best == nullptr || owner->price < best->price) best = owner;
    }
    return best;
  }
  size_t shortlisted() { return allocator.statistics().shortlisted; }

  const size_t block_bytes;
};

TEST_CASE("while prices stay, the same go as by exact searches, and few are priced") {
  for (const bool pages : {false, true}) {
    World exact(false, pages);
    World quick(true, pages);
    for (int k = 0; k < 100; ++k) {
      FakeOwner* const next = quick.cheapest_left();
      const auto evicted = quick.miss(kPage);
      CHECK(evicted == std::vector<FakeOwner*>{next});
      CHECK(exact.miss(kPage).front()->price == evicted.front()->price);
    }
    CHECK(exact.shortlisted() == 0);
    CHECK(quick.shortlisted() > 80);
    CHECK(quick.reclaimer.priced * 4 < exact.reclaimer.priced);
  }
}

TEST_CASE("what is not listed is not seen to become cheaper, but within so many misses") {
  World world(true);
  world.miss(kPage);  // makes the list
  FakeOwner* dearest = world.reclaimer.owners().front();
  for (FakeOwner* owner : world.reclaimer.owners()) {
    if (owner->price > dearest->price) dearest = owner;
  }
  dearest->price = 1;
  size_t misses = 1;
  while (world.miss(kPage).front() != dearest) ++misses;
  CHECK(misses > 1);
  CHECK(misses <= kBlocks / Shortlists::kShare + 1);
}

TEST_CASE("nothing is taken for more than what was left out had cost") {
  World world(true);
  world.miss(kPage);
  std::vector<FakeOwner*> left;
  for (FakeOwner* owner : world.reclaimer.owners()) {
    if (owner->address != nullptr) left.push_back(owner);
  }
  std::sort(left.begin(), left.end(), [](auto* a, auto* b) { return a->price < b->price; });
  // One of the cheapest was the list's first victim already.
  const size_t listed = Shortlists::kEntries - 1;
  for (size_t k = 0; k < listed; ++k) left[k]->price += 1'000'000;
  CHECK(world.miss(kPage).front() == left[listed]);
  CHECK(world.shortlisted() == 0);
}

TEST_CASE("nothing dear is taken for want of what was locked when the list was made") {
  World world(true);
  const auto& owners = world.reclaimer.owners();
  for (FakeOwner* owner : owners) owner->price = 1'000'000;
  for (size_t k = 0; k < 3; ++k) owners[k]->price = 1000;
  owners[1]->barrier = owners[2]->barrier = true;
  CHECK(world.miss(kPage).front() == owners[0]);
  owners[1]->barrier = owners[2]->barrier = false;
  for (int k = 0; k < 2; ++k) CHECK(world.miss(kPage).front()->price == 1000);
}

TEST_CASE("listed blocks that are freed, kept or used again are passed over") {
  World world(true);
  world.miss(kPage);
  for (int k = 0; k < 3; ++k) {
    FakeOwner* gone = world.cheapest_left();
    world.allocator.free(gone->address);
    gone->address = nullptr;
    world.allocator.allocate(kPage);  // in its place, without an owner
    CHECK(world.reclaimer.evicted.size() == 1);
    world.cheapest_left()->barrier = true;
    FakeOwner* const next = world.cheapest_left();
    CHECK(world.miss(kPage).front() == next);
  }
  CHECK(world.shortlisted() == 3);
}

TEST_CASE("a listed block that refuses to go is looked for no more") {
  World world(true);
  world.miss(kPage);
  FakeOwner* const refuses = world.cheapest_left();
  refuses->refuses = true;
  CHECK(world.miss(kPage).front()->price == refuses->price + 10);
  world.allocator.check_invariants();
}

TEST_CASE("what takes several small blocks is served from lists of pages") {
  for (const size_t bytes : {3 * kPage / 4, 5 * kPage / 4}) {
    World world(true, true, kPage / 4);
    size_t misses = 0;
    for (int k = 0; k < 40; ++k) misses += world.miss(bytes).size() > 1;
    CAPTURE(bytes, misses);
    CHECK(misses > 20);
    CHECK(world.shortlisted() * 3 > misses);
  }
}

TEST_CASE("among many blocks some go ahead of requests, and nothing is priced for these") {
  constexpr size_t kManyBlocks = 2 * Shortlists::kMany;
  constexpr size_t kSpares = kManyBlocks / Shortlists::kSpare;
  for (const bool pages : {false, true}) {
    World world(true, pages, kPage, kManyBlocks);
    for (int round = 0; round < 3; ++round) {
      const auto evicted = world.miss(kPage);
      CAPTURE(pages, round);
      REQUIRE(evicted.size() >= kSpares);
      // All cheaper than whatever is left.
      for (const FakeOwner* owner : evicted) CHECK(owner->price < world.cheapest_left()->price);
      const size_t priced = world.reclaimer.priced;
      for (size_t k = 1; k < evicted.size(); ++k) CHECK(world.miss(kPage).empty());
      CHECK(world.reclaimer.priced == priced);
    }
    CHECK(world.shortlisted() >= 2);
  }
}

TEST_CASE("among many blocks what is listed may cost as much more as a look at all takes") {
  constexpr size_t kManyBlocks = 2 * Shortlists::kMany;
  constexpr size_t kListed = kManyBlocks / Shortlists::kListed;
  for (const uint64_t search_ns : {0, 1}) {
    for (const bool pages : {false, true}) {
      World world(true, pages, kPage, kManyBlocks, search_ns);
      const size_t gone = world.miss(kPage).size();
      for (size_t k = 1; k < gone; ++k) world.miss(kPage);  // takes what the spares have left
      std::vector<FakeOwner*> left;
      for (FakeOwner* owner : world.reclaimer.owners()) {
        if (owner->address != nullptr) left.push_back(owner);
      }
      std::sort(left.begin(), left.end(), [](auto* a, auto* b) { return a->price < b->price; });
      const size_t listed = kListed - gone;
      for (size_t k = 0; k < listed; ++k) left[k]->price += kManyBlocks - 1000;
      CAPTURE(search_ns, pages);
      CHECK(world.miss(kPage).front() == left[search_ns == 0 ? listed : 0]);
      for (size_t k = 0; k < listed; ++k) left[k]->price += 2000;
      const auto evicted = world.miss(kPage);
      if (!evicted.empty()) CHECK(evicted.front()->price < 2000);
    }
  }
}

TEST_CASE("nothing dear goes ahead of requests") {
  World world(true, true, kPage, 2 * Shortlists::kMany);
  world.cheapest_left()->price = 100;
  CHECK(world.miss(kPage).size() == 1);
  World narrow(true, true, kPage, Shortlists::kMany - 1);
  CHECK(narrow.miss(kPage).size() == 1);
}

TEST_CASE("requests of several sizes are served from lists, and free pages before them") {
  World world(true, true, 2 * kPage);
  test::Random random(3);
  size_t misses = 0;
  for (int k = 0; k < 120; ++k) {
    const size_t bytes = kPage * (1 + random.below(3));
    const size_t priced = world.reclaimer.priced;
    misses += !world.miss(bytes).empty();
    // A page that a block of two left needs no price.
    if (world.reclaimer.evicted.empty()) CHECK(world.reclaimer.priced == priced);
  }
  CHECK(world.shortlisted() * 2 > misses);
}

}  // namespace
}  // namespace tidepool
