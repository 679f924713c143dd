#include "remat/simulate/memory/memory_model.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::remat {
namespace {

struct World {
  explicit World(SimulatedMemory the_memory)
      : memory(std::move(the_memory)), allocator(*memory.space, mutex, memory.config) {}
  SimulatedMemory memory;
  DeviceMutex mutex;
  BudgetedAllocator allocator;
};

TEST_CASE("models have names") {
  CHECK(std::string(name_of(MemoryModel::kExact)) == "exact");
  CHECK(std::string(name_of(MemoryModel::kArena)) == "arena");
  CHECK(std::string(name_of(MemoryModel::kPages)) == "pages");
}

// The reference is a count: a request fits exactly if it and all that is held fit the budget.
TEST_CASE("exact memory behaves as a plain count of bytes, whatever the order of frees") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    test::Random random(seed);
    const size_t budget = random.between(1, 3'000'000);
    World world(*make_memory(MemoryModel::kExact, budget, 0));
    std::vector<std::pair<void*, size_t>> held;
    size_t count = 0;
    for (int step = 0; step < 1500; ++step) {
      if (!held.empty() && random.chance(45)) {
        const size_t at = random.below(held.size());
        world.allocator.free(held[at].first);
        count -= held[at].second;
        held[at] = held.back();
        held.pop_back();
        continue;
      }
      const size_t bytes = random.between(1, budget / (random.chance(10) ? 1 : 40) + 1);
      const bool fits = count + bytes <= budget;
      try {
        held.emplace_back(world.allocator.allocate(bytes), bytes);
        count += bytes;
        REQUIRE(fits);
      } catch (const OutOfMemory&) {
        REQUIRE_FALSE(fits);
      }
      REQUIRE(world.allocator.statistics().requested_bytes == count);
    }
    world.allocator.check_invariants();
  }
}

// Every second block is freed: half of the budget, in pieces.
size_t fragment(World& world, size_t blocks, size_t bytes) {
  std::vector<void*> held;
  for (size_t k = 0; k < blocks; ++k) held.push_back(world.allocator.allocate(bytes));
  for (size_t k = 0; k < blocks; k += 2) world.allocator.free(held[k]);
  return blocks / 2 * bytes;
}

TEST_CASE("an arena is lost to fragments, pages only to parts of them, bytes to nothing") {
  constexpr size_t kBlock = 64 << 10;
  constexpr size_t kBlocks = 64;
  for (const size_t block : {kBlock, kBlock - 64}) {
    World exact(*make_memory(MemoryModel::kExact, kBlocks * kBlock, 0));
    World arena(*make_memory(MemoryModel::kArena, kBlocks * kBlock, 0));
    World pages(*make_memory(MemoryModel::kPages, kBlocks * kBlock, 4096));
    const size_t free = fragment(exact, kBlocks, block);
    fragment(arena, kBlocks, block);
    fragment(pages, kBlocks, block);
    exact.allocator.allocate(free);
    CHECK_THROWS_AS(arena.allocator.allocate(free), OutOfMemory);
    CHECK_NOTHROW(arena.allocator.allocate(block));
    // Each hole gives its whole pages.
    CHECK_NOTHROW(pages.allocator.allocate(free - (block == kBlock ? 0 : kBlocks * 4096)));
    CHECK(pages.allocator.statistics().remapped_bytes > 0);
  }
}

TEST_CASE("all of an arena but for rounding is one range") {
  for (const size_t budget : {size_t{100'000}, size_t{123'456'789}, size_t{5} << 30}) {
    World world(*make_memory(MemoryModel::kArena, budget, 0));
    const size_t usable = world.allocator.statistics().budget_bytes;
    CHECK(usable <= budget);
    CHECK(budget - usable <= std::max<size_t>(budget / 1000, 8 * 1024));
    CHECK_NOTHROW(world.allocator.allocate(usable));
  }
}

TEST_CASE("a budget below one page gives no memory") {
  CHECK_FALSE(make_memory(MemoryModel::kPages, 4095, 4096).has_value());
  CHECK(make_memory(MemoryModel::kPages, 4096, 4096).has_value());
  CHECK_FALSE(make_memory(MemoryModel::kArena, 100, 0).has_value());
  CHECK(make_memory(MemoryModel::kExact, 0, 0).has_value());
}

}  // namespace
}  // namespace tidepool::remat
