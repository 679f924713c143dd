// StepPlan: what a search on a recorded step has found for steps that repeat it: which policy
// prices, a factor for the price of each of the step's results, and which way of making room is
// preferred.
// Plain data. A result is named by its place in the step, not by an object or address: it is the
// k-th of all outputs that have bytes, operator by operator (StepHistory::expected_outputs()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "allocator/arena/reclaimer.h"

namespace tidepool::remat {

struct StepPlan {
  std::string policy = "needed-cost";  // one that PlannedPolicy has
  double use_share = 0.5;              // of next-use: how much the time of the next use counts
  std::vector<float> weights;          // by output; empty: all are 1
  Preference preference = Preference::kCheapest;
  uint64_t fingerprint = 0;  // of the step that it is for (StepHistory::last_fingerprint())

  // Whether a step goes the same way without the plan.
  bool is_none() const {
    return policy == "needed-cost" && weights.empty() && preference == Preference::kCheapest;
  }
};

}  // namespace tidepool::remat
