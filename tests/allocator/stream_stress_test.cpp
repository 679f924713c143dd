// Threads at once, each with a stream of its own, on one allocator under a tight budget: no use of
// memory may come before another is surely over. Run under the thread sanitizer too.
#include <barrier>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/random.h"
#include "tests/support/stream_world.h"

namespace tidepool {
namespace {

constexpr size_t kPage = test::StreamWorld::kPage;
constexpr size_t kThreads = 4;

struct World : test::StreamWorld {
  World() : StreamWorld(kThreads, config(48)) {}
};

struct Held {
  void* address;
  size_t bytes;
};

// Keeps threads within a few rounds of each other: alone, a thread has nobody to borrow from.
using Pace = std::barrier<>;
constexpr size_t kRoundsPerPace = 20;

// What one thread does; returns the first race, or "".
std::string run(World& world, size_t thread, size_t rounds, Pace& pace) {
  test::Random random(thread + 1);
  const StreamId own{static_cast<uint32_t>(thread)};
  std::vector<Held> held;
  for (size_t round = 0; round < rounds; ++round) {
    if (round % kRoundsPerPace == 0) pace.arrive_and_wait();
    size_t bytes = random.chance(30) ? random.between(1, 6 * kPage) : random.between(1, 8192);
    try {
      void* address = world.allocator.allocate(bytes, PlacementHint::kTransient, own);
      std::string race = world.streams.launch(own, Address::of(address), bytes);
      if (!race.empty()) return race;
      if (random.chance(30)) {
        StreamId user{static_cast<uint32_t>(random.below(kThreads))};
        world.allocator.record_stream(address, user);
        (void)world.streams.launch(user, Address::of(address), bytes);
      }
      held.push_back({address, bytes});
    } catch (const OutOfMemory&) {
      // The others hold it all.
    }
    while (held.size() > 4 || (!held.empty() && random.chance(30))) {
      world.allocator.free(held.back().address);
      held.pop_back();
    }
    world.streams.progress(StreamId{static_cast<uint32_t>(random.below(kThreads))});
    if (random.chance(1)) world.allocator.give_back_free_pages();
  }
  for (const Held& block : held) world.allocator.free(block.address);
  return {};
}

TEST_CASE("threads with a stream each lend each other memory without a race", "[stress]") {
  constexpr size_t kRounds = 1500;
  World world;
  std::vector<std::string> races(kThreads);
  std::vector<std::thread> threads;
  Pace pace(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      races[t] = run(world, t, kRounds, pace);
      pace.arrive_and_drop();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& race : races) CHECK(race == "");
  world.allocator.check_invariants();
  CHECK(world.allocator.statistics().lent > 0);
  world.allocator.give_back_free_pages();
  CHECK(world.allocator.statistics().reserved_bytes == 0);
  CHECK(world.allocator.statistics().awaiting_bytes == 0);
}

}  // namespace
}  // namespace tidepool
