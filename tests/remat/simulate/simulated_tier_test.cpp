#include "remat/simulate/simulated_tier.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("a simulated tier counts what fits, and the time that transfers take") {
  plan::SimulatedTier tier({100'000, 2});
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

}  // namespace
}  // namespace tidepool
