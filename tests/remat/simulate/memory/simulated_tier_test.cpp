#include "remat/simulate/memory/simulated_tier.h"

#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/memory_tier.h"

namespace tidepool {
namespace {

TEST_CASE("a simulated tier counts what fits, and the time that transfers take") {
  const uint64_t now_ns = 0;
  remat::SimulatedTier tier({100'000, 2, false}, now_ns);
  const auto slot = tier.store(nullptr, 60'000, {});
  REQUIRE(slot.has_value());
  CHECK_FALSE(tier.store(nullptr, 60'000, {}).has_value());
  tier.load(*slot, nullptr, StreamId::kDefault);
  CHECK(tier.load_ns(60'000) - tier.load_ns(0) == 30'000);
  CHECK(tier.statistics().store_ns == tier.load_ns(60'000));
  CHECK(tier.statistics().load_ns == tier.load_ns(60'000));
  tier.drop(*slot);
  CHECK(tier.statistics().held_bytes == 0);
  CHECK(tier.statistics().peak_bytes == 60'000);
  CHECK(tier.has_room(100'000));
}

TEST_CASE("transfers run beside operators, one at a time in each direction") {
  uint64_t now_ns = 0;
  remat::SimulatedTier tier({1'000'000, 1, true}, now_ns);
  char memory[3000] = {};
  const uint64_t each_ns = tier.load_ns(1000);
  const auto first = tier.store(memory, 1000, {});
  const auto second = tier.store(memory + 1000, 1000, {});
  CHECK(tier.until(memory, 1000) == each_ns);
  CHECK(tier.until(memory + 1000, 1) == 2 * each_ns);
  CHECK(tier.until(memory + 2000, 1000) == 0);
  tier.note_wait(memory, 3000, 7);
  CHECK(tier.statistics().store_ns == 7);
  tier.load(*second, memory + 2000, StreamId::kDefault);  // not before it has been stored
  CHECK(tier.until(memory + 2000, 1000) == 3 * each_ns);
  tier.load(*first, memory, StreamId::kDefault);  // not before the load ahead of it
  CHECK(tier.until(memory, 1000) == 4 * each_ns);
  tier.note_wait(memory, 1000, 5);
  CHECK(tier.statistics().load_ns == 5);
  now_ns = 5 * each_ns;
  CHECK(tier.until(memory, 3000) == 0);
  tier.drop(*first);
  tier.drop(*second);
  CHECK(tier.statistics().held_bytes == 0);
}

TEST_CASE("a model takes as long as its tier, both ways together") {
  CHECK(remat::model_of(nullptr).capacity_bytes == 0);
  const MemoryTier tier({.capacity = 1000, .ns_per_byte = 0.5, .runs_beside = true});
  const remat::TierModel model = remat::model_of(&tier);
  CHECK(model.capacity_bytes == 1000);
  CHECK(std::abs(model.gb_per_second - 2) < 0.01);
  CHECK(model.runs_beside);
  const uint64_t now_ns = 0;
  const remat::TierModel given{100'000, 25, false};
  const remat::SimulatedTier simulated(given, now_ns);
  CHECK(std::abs(remat::model_of(&simulated).gb_per_second - 25) < 0.01);
  CHECK_FALSE(remat::model_of(&simulated).runs_beside);
}

}  // namespace
}  // namespace tidepool
