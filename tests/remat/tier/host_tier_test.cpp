#include "remat/tier/host_tier.h"

#include <memory>
#include <vector>

#include "allocator/base/device_error.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/support/simulated_copies.h"

namespace tidepool::remat {
namespace {

using test::kInStream;
using test::kJob;
using test::kOutStream;
using test::SimulatedCopies;
using World = SimulatedCopies::World;

std::unique_ptr<HostTier> make_tier(World& world, uint64_t capacity) {
  return std::make_unique<HostTier>(std::make_unique<SimulatedCopies>(world), capacity, 1000);
}

constexpr StreamId kUsers[] = {kJob};

TEST_CASE("what was stored comes back, after the copy out and before what uses it") {
  World world;
  const auto tier = make_tier(world, 1 << 20);
  REQUIRE(tier->streams() != nullptr);
  CHECK(tier->streams()->out == kOutStream);
  CHECK(tier->streams()->in == kInStream);
  CHECK_FALSE(tier->compares());
  CHECK(tier->store_ns(1000) > tier->load_ns(1000));
  std::vector<char> block(3000, 'a'), other(3000);
  world.use(kJob, block.data(), block.size());
  const auto slot = tier->store(block.data(), block.size(), kUsers);
  REQUIRE(slot);
  CHECK(tier->statistics().held_bytes == 3072);  // in units of 512
  tier->load(*slot, other.data(), kJob);
  CHECK(other == block);
  CHECK(world.race.empty());
  // What does not wait races with the copies.
  world.use(kJob, block.data(), block.size());
  CHECK_FALSE(world.race.empty());
  tier->drop(*slot);
  CHECK(tier->statistics().held_bytes == 0);
  CHECK(tier->statistics().loads == 1);
  tier->check_invariants();
}

TEST_CASE("slabs become smaller where memory is refused, and never pass the capacity") {
  World world;
  constexpr uint64_t kMiB = 1 << 20;
  world.host_bytes = 11 * kMiB;
  const auto tier = make_tier(world, 40 * kMiB);
  CHECK(tier->has_room(40 * kMiB));
  std::vector<char> block(3 * kMiB);
  std::vector<TierSlot> slots;
  while (const auto slot = tier->store(block.data(), block.size(), {})) slots.push_back(*slot);
  CHECK(slots.size() == 3);
  CHECK(world.slabs == std::vector<size_t>{8 * kMiB, 2 * kMiB});
  CHECK_FALSE(tier->has_room(3 * kMiB));
  CHECK(tier->statistics().refusals == 1);
  for (const TierSlot slot : slots) tier->drop(slot);
  CHECK(tier->has_room(10 * kMiB));
  CHECK_FALSE(tier->has_room(10 * kMiB + 1));
  const auto all = tier->store(std::vector<char>(10 * kMiB).data(), 10 * kMiB, {});
  REQUIRE(all);
  tier->drop(*all);

  World small;
  const auto capped = make_tier(small, 5000);
  CHECK(capped->has_room(4608));
  CHECK_FALSE(capped->has_room(4609));
  const auto most = capped->store(block.data(), 4608, {});
  REQUIRE(most);
  CHECK(small.held == 4608);
  CHECK_FALSE(capped->store(block.data(), 1, {}));
  capped->drop(*most);
}

TEST_CASE("where the device refuses, nothing is stored, and it is tried again later") {
  World world;
  const auto tier = make_tier(world, 1 << 20);
  std::vector<char> block(1000, 'b'), other(1000);
  world.fail_copy_in = 1;
  CHECK_FALSE(tier->store(block.data(), block.size(), kUsers));
  world.streams.fail_at(1);
  CHECK_FALSE(tier->store(block.data(), block.size(), kUsers));
  CHECK(tier->statistics().held_bytes == 0);
  tier->check_invariants();
  const auto slot = tier->store(block.data(), block.size(), kUsers);
  REQUIRE(slot);
  world.fail_copy_in = 1;
  CHECK_THROWS_AS(tier->load(*slot, other.data(), kJob), DeviceError);
  tier->load(*slot, other.data(), kJob);
  CHECK(other == block);
  tier->drop(*slot);
}

TEST_CASE("what is given back where the device refuses to order is given back once") {
  World world;
  const auto tier = make_tier(world, 4096);
  std::vector<char> block(1024, 'c'), other(1024);
  std::vector<TierSlot> slots;
  for (int k = 0; k < 4; ++k) slots.push_back(*tier->store(block.data(), block.size(), kUsers));
  for (const TierSlot slot : slots) {
    tier->load(slot, other.data(), kJob);
    tier->drop(slot);
  }
  CHECK(tier->has_room(4096));
  world.streams.fail_at(2);  // the second of those that have to be waited for
  CHECK_FALSE(tier->store(other.data(), 1, kUsers));
  tier->check_invariants();
  world.streams.fail_at(0);
  const auto all = tier->store(std::vector<char>(4096).data(), 4096, kUsers);
  REQUIRE(all);
  tier->drop(*all);
  tier->check_invariants();
}

TEST_CASE("a forked child has no device") {
  World world;
  const auto tier = make_tier(world, 1 << 20);
  std::vector<char> block(1000);
  const auto slot = tier->store(block.data(), block.size(), kUsers);
  REQUIRE(slot);
  tier->become_forked_child();
  CHECK_FALSE(tier->has_room(1));
  CHECK_FALSE(tier->store(block.data(), block.size(), kUsers));
  CHECK_THROWS_AS(tier->load(*slot, block.data(), kJob), TierError);
  tier->drop(*slot);
}

// The job uses its blocks on its stream, and waits where the tier's caller makes it wait.
TEST_CASE("no copy races with another, or with work that waits for it") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    World world;
    world.host_bytes = 6 << 20;
    const auto tier = make_tier(world, 5 << 20);
    test::Random random(seed);
    struct Stored {
      TierSlot slot;
      std::vector<char> contents;
    };
    std::vector<Stored> stored;
    std::vector<std::unique_ptr<std::vector<char>>> blocks;  // their addresses are used once
    const auto wait_for = [&](StreamId stream) {
      world.streams.wait(kJob, *world.streams.record(stream));
    };
    for (int step = 0; step < 60; ++step) {
      const uint64_t kind = random.below(8);
      if (kind < 3) {
        const size_t bytes = 1 + random.below(1 << 20);
        blocks.push_back(std::make_unique<std::vector<char>>(bytes, static_cast<char>(step)));
        world.use(kJob, blocks.back()->data(), bytes);
        if (const auto slot = tier->store(blocks.back()->data(), bytes, kUsers)) {
          stored.push_back({*slot, *blocks.back()});
          wait_for(kOutStream);
          world.use(kJob, blocks.back()->data(), bytes);  // somebody else has the block
        }
      } else if (kind < 6 && !stored.empty()) {
        const Stored& one = stored[random.below(stored.size())];
        blocks.push_back(std::make_unique<std::vector<char>>(one.contents.size()));
        world.use(kJob, blocks.back()->data(), blocks.back()->size());
        tier->load(one.slot, blocks.back()->data(), kJob);
        if (random.below(2) > 0) continue;  // nobody needs it yet: the next copy out may overtake
        wait_for(kInStream);
        world.use(kJob, blocks.back()->data(), blocks.back()->size());
        CHECK(*blocks.back() == one.contents);
      } else if (kind == 6 && !stored.empty()) {
        const size_t which = random.below(stored.size());
        tier->drop(stored[which].slot);
        stored.erase(stored.begin() + static_cast<ptrdiff_t>(which));
      } else {
        world.streams.progress(static_cast<StreamId>(random.below(3)));
      }
      tier->check_invariants();
    }
    INFO("seed " << seed);
    CHECK(world.race == "");
    for (const Stored& each : stored) tier->drop(each.slot);
  }
}

}  // namespace
}  // namespace tidepool::remat
