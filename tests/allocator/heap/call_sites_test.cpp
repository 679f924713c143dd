#include "allocator/heap/call_sites.h"

#include <set>
#include <thread>

#include "tests/support/catch.h"

namespace tidepool {
namespace {

constexpr PlacementHint kPassing = PlacementHint::kTransient;
constexpr PlacementHint kKeeping = PlacementHint::kLongLived;

// Sites and addresses are numbers.
const void* at(uintptr_t number) { return reinterpret_cast<const void*>(number); }

struct World {
  // A request of the site, which is given the block at the address.
  PlacementHint request(uintptr_t site, uintptr_t address) {
    const PlacementHint hint = sites.hint_for(at(site));
    if (hint == kKeeping) sites.given(at(site), at(address));
    return hint;
  }
  PlacementHint request_elsewhere(uintptr_t site, uintptr_t address) {
    PlacementHint hint{};
    std::thread([&] { hint = request(site, address); }).join();
    return hint;
  }

  std::set<const void*> kept;
  bool knows = true;
  uintptr_t first_that_never_keeps = UINTPTR_MAX;
  size_t asked = 0;
  CallSites sites{[this](const void* address) -> std::optional<bool> {
                    ++asked;
                    if (!knows) return std::nullopt;
                    return kept.contains(address);
                  },
                  [this](const void* site) { return site < at(first_that_never_keeps); }};
};

TEST_CASE("what a site keeps shows where its next request is to be put, once and for all") {
  World world;
  CHECK(world.request(1, 100) == kKeeping);  // may be
  CHECK(world.request(2, 200) == kKeeping);
  world.kept = {at(100)};
  for (int i = 0; i < 3; ++i) {
    CHECK(world.request(1, 300) == kKeeping);
    CHECK(world.request(2, 400) == kPassing);
  }
  CHECK(world.asked == 2);
  world.kept.clear();
  CHECK(world.request(1, 500) == kKeeping);
}

TEST_CASE("a site that cannot keep is transient from the start") {
  World world;
  world.first_that_never_keeps = 7;
  CHECK(world.request(7, 100) == kPassing);
  CHECK(world.request(6, 100) == kKeeping);
}

TEST_CASE("nothing is concluded while nobody can say, or another thread is yet to keep it") {
  World world;
  CHECK(world.request_elsewhere(1, 100) == kKeeping);
  CHECK(world.request(1, 200) == kKeeping);  // the other thread may have it in its hands
  world.knows = false;
  CHECK(world.request(1, 300) == kKeeping);
  world.knows = true;
  world.kept = {at(300)};
  CHECK(world.request_elsewhere(1, 400) == kKeeping);
  CHECK(world.request(1, 500) == kKeeping);

  CHECK(world.request_elsewhere(2, 600) == kKeeping);
  CHECK(world.request(2, 700) == kKeeping);
  CHECK(world.request(2, 800) == kPassing);  // its own it would have kept by now
}

TEST_CASE("a site of two threads in turn is not doubted for ever") {
  World world;
  size_t doubtful = 0;
  for (uintptr_t k = 0; k < 40; ++k) {
    const PlacementHint hint =
        k % 2 == 0 ? world.request(1, 100 + k) : world.request_elsewhere(1, 100 + k);
    doubtful += hint == kKeeping;
  }
  CHECK(doubtful >= 4);
  CHECK(doubtful <= 10);
}

TEST_CASE("what was freed and given to another site says nothing of the first") {
  World world;
  CHECK(world.request(1, 100) == kKeeping);
  CHECK(world.request(2, 100) == kKeeping);
  world.kept = {at(100)};
  CHECK(world.request(1, 200) == kKeeping);  // not known yet
  CHECK(world.request(1, 300) == kPassing);
  CHECK(world.request(2, 400) == kKeeping);
}

TEST_CASE("sites for which there is no room are transient") {
  World world;
  size_t unknown = 0;
  for (uintptr_t site = 1; site <= 4096; ++site) {
    unknown += world.request(site, 0x10000 + site) == kKeeping;
  }
  CHECK(unknown > 100);
  CHECK(unknown <= 256);
}

}  // namespace
}  // namespace tidepool
