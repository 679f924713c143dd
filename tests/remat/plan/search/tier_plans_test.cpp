#include "remat/plan/search/tier_plans.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("Copies are tried as the last way to leave, and as one that costs nothing",
          "[tier_plans]") {
  StepPlan best;
  best.policy = "dtr";
  best.preference = Preference::kMoves;
  const auto plans = plans_with_other_copies(best, true);
  const auto has = [&](const StepPlan& wanted) {
    return std::any_of(plans.begin(), plans.end(), [&](const StepPlan& plan) {
      return plan.policy == wanted.policy && plan.preference == wanted.preference &&
             plan.copies == wanted.copies;
    });
  };
  StepPlan last = best;
  last.copies.factor = kLastToBeCopied;
  CHECK(has(last));
  last.copies = {0, 1, kLastToBeCopied};
  CHECK(has(last));
  StepPlan free;
  free.copies = {0, 1 / kLastToBeCopied, 1 / kLastToBeCopied};
  for (const Preference preference : {Preference::kCheapest, Preference::kPages}) {
    free.preference = preference;
    CHECK(has(free));
  }
}

TEST_CASE("No plan prefers that pages move where there are none", "[tier_plans]") {
  for (const StepPlan& plan : plans_with_other_copies({}, false)) {
    CHECK(plan.preference == Preference::kCheapest);
  }
}

TEST_CASE("The time of the next use counts for copies as it does for recomputing", "[tier_plans]") {
  for (const StepPlan& plan : plans_by_next_uses(Preference::kPlaces)) {
    CHECK(plan.copies.use_share > 0);
    CHECK(plan.copies.use_share == plan.use_share);
    CHECK(plan.preference == Preference::kPlaces);
  }
}

}  // namespace
}  // namespace tidepool::remat
