#include "remat/simulate/simulation.h"

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("an unknown policy is named with the known ones") {
  CHECK_THROWS_WITH(check_policy("fifo"),
                    ContainsSubstring("fifo") && ContainsSubstring("needed-cost"));
  CHECK_NOTHROW(check_policy("coop"));
}

TEST_CASE("searches for room count as far as the device has to wait for them") {
  PlannerConfig config;
  config.price_ns = 20;
  config.hidden_share = 0.03;
  CHECK(config.search_share(1, 1000) == 0);
  CHECK(config.search_share(5, 1000) > 0.069);
  CHECK(config.search_share(5, 1000) < 0.071);
  CHECK(config.search_share(5, 0) == 0);
}

}  // namespace
}  // namespace tidepool::remat
