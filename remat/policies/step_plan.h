// StepPlan: what a search on a recorded step has found for the steps that repeat it: whose prices
// to use, by what factor to multiply that of each of the step's results, and how to make room.
// Plain data. Results are named by their place in the step, so that a plan says nothing of objects
// or addresses: the k-th of all outputs that have bytes, operator by operator
// (StepHistory::expected_outputs()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "allocator/arena/reclaimer.h"

namespace tidepool::remat {

struct StepPlan {
  std::string policy = "needed-cost";  // one that PlannedPolicy has
  double use_share = 0.5;        // of next-use: how much the time of the next use counts
  std::vector<float> weights;    // by output; empty: all are 1
  Preference preference = Preference::kCheapest;
  uint64_t fingerprint = 0;  // of the step that it is for (StepHistory::last_fingerprint())

  // A step goes the same way without it.
  bool is_none() const {
    return policy == "needed-cost" && weights.empty() && preference == Preference::kCheapest;
  }
};

}  // namespace tidepool::remat
