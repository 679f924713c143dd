#include "remat/plan/search/tier_plans.h"

#include <utility>

namespace tidepool::remat {

std::vector<StepPlan> plans_with_other_copies(const StepPlan& best, bool has_pages) {
  std::vector<StepPlan> plans;
  for (const auto& [factor, root_factor] :
       {std::pair(kLastToBeCopied, 1.0), {1.0, kLastToBeCopied}}) {
    StepPlan& plan = plans.emplace_back(best);
    plan.copies.factor = factor;
    plan.copies.root_factor = root_factor;
  }
  for (const auto& [policy, use_share] : {std::pair("needed-cost", 0.0), {"next-use", 0.75}}) {
    for (const Preference preference : {Preference::kCheapest, Preference::kPages}) {
      if (!has_pages && preference == Preference::kPages) continue;
      StepPlan& plan = plans.emplace_back();
      plan.policy = policy;
      plan.use_share = use_share;
      plan.preference = preference;
      plan.copies = {0, 1 / kLastToBeCopied, 1 / kLastToBeCopied};
    }
  }
  return plans;
}

std::vector<StepPlan> plans_by_next_uses(Preference preference) {
  std::vector<StepPlan> plans;
  for (const double share : {0.75, 0.5, 1.0}) {
    for (const char* policy : {"needed-cost", "dtr-eq", "size", "next-use"}) {
      StepPlan& plan = plans.emplace_back();
      plan.policy = policy;
      plan.use_share = plan.copies.use_share = share;
      plan.preference = preference;
    }
  }
  return plans;
}

}  // namespace tidepool::remat
