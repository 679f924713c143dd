// find_gaps: which results of a step leave in which gaps, such that the step runs within a budget
// in as little time, or with as little energy, as can be found: greedily first, then by simulated
// annealing (Kirkpatrick et al., Science, 1983) of the model's figures, from what was found so far.
// Moccasin's retention intervals (Bartan et al., 2023), with any number of recomputations, are the
// same choices. Thread safe: searches share nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "remat/plan/search/gap_model.h"
#include "remat/simulate/job/stop_token.h"

namespace tidepool::remat {

// GapGoal: what is made small, time or energy, and how much of each there may be, as multiples of
// what the step takes without a budget. POET (Patil et al., ICML 2022) bounds the time.
struct GapGoal {
  bool least_energy = false;
  double most_time = std::numeric_limits<double>::infinity();
  double most_energy = std::numeric_limits<double>::infinity();
};

// What a search is bounded by, so that it finds the same each time; each takes some ten ns.
inline constexpr uint64_t kOperatorsPerSecond = 100'000'000;

struct GapSearchConfig {
  size_t budget_bytes = 0;
  GapGoal goal;
  uint64_t operators = kOperatorsPerSecond / 2;  // that the model may run in all
  uint64_t seed = 1;
  StopToken* stop = nullptr;  // once it says so, the search ends with what it has
};

struct FoundGaps {
  std::vector<GapChoice> choices;
  GapModel::Outcome outcome;  // within the budget and the goal's bounds
  size_t evaluations = 0;
};

// Returns the best choices found; nothing if none keeps within the budget and the goal's bounds.
std::optional<FoundGaps> find_gaps(GapModel& model, const GapSearchConfig& config);

}  // namespace tidepool::remat
