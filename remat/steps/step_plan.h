// StepPlan: what a search on a recorded step has found for steps that repeat it: which policy
// prices, a factor for the price of each of the step's results, which way of making room is
// preferred, and perhaps what is dropped when: between two uses of a result.
// Plain data. A result is named by its place in the step, not by an object or address: it is the
// k-th of all outputs that have bytes, operator by operator (StepHistory::expected_outputs()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/arena/reclaimer.h"

namespace tidepool::remat {

// DroppedGap: a result that is to leave first between two of its uses. Gap k comes before use k,
// counted from 0; several uses by one operator count once. The last gap comes after the last use.
struct DroppedGap {
  uint32_t output = 0;
  uint32_t gap = 0;
  bool stays = false;  // once restored for the sake of something else, it stays until that use
  // Another result: not before that has been restored in the gap is this one to leave.
  std::optional<uint32_t> after = {};
  bool operator==(const DroppedGap&) const = default;
};

// CopyPrices: with a tier, what a plan makes of the prices of copies.
struct CopyPrices {
  double use_share = 0;    // how much the time of the next use counts; 0: not at all
  double factor = 1;       // of contents that can be made again
  double root_factor = 1;  // of those that cannot
  bool operator==(const CopyPrices&) const = default;
};

struct StepPlan {
  std::string policy = "needed-cost";  // one that PlannedPolicy has
  double use_share = 0.5;              // of next-use: how much the time of the next use counts
  CopyPrices copies;
  std::vector<float> weights;  // by output; empty: all are 1
  Preference preference = Preference::kCheapest;
  // What leaves before all else; what is not listed leaves last. Nothing: the prices alone decide.
  std::optional<std::vector<DroppedGap>> gaps;
  uint64_t fingerprint = 0;  // of the step that it is for (StepHistory::last_fingerprint())

  // Whether a step goes the same way without the plan.
  bool is_none() const {
    return policy == "needed-cost" && copies == CopyPrices{} && weights.empty() &&
           preference == Preference::kCheapest && !gaps;
  }
};

}  // namespace tidepool::remat
