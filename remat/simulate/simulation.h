// Simulation: what one run of a trace is given (SimulationConfig), and what comes out of it
// (SimulationResult). Plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "remat/limits.h"
#include "remat/simulate/memory_model.h"
#include "remat/simulate/simulated_tier.h"
#include "remat/simulate/stop_token.h"

namespace tidepool::plan {

// How a planner searches; see plan/planner.h.
struct PlannerConfig {
  size_t simulations = 300;  // at most, those with other times included; 0: no search
  // So many operators, replays included, are simulated at most, but for the candidate that is being
  // tried; half of them while all policies are tried, once one runs. Each takes some microseconds.
  uint64_t operators = 3'000'000;
  size_t perturbed = 2;  // so many times, operators' times are others than those recorded
  double spread = 0.1;   // by so much: the deviation of the logarithm of an operator's time
  // Where no candidate runs with all these times, and the step fails without a plan, one that runs
  // with the recorded ones will do.
  bool recorded_times_suffice = false;
  uint64_t seed = 1;
  // What a search for room takes for each block that it prices, and the share of a step's time that
  // searches may take before plans count the rest as time of the step: hosts run ahead of devices.
  double price_ns = 20;
  double hidden_share = 0.03;

  // What so many prices count for, as a share of a step that takes `step_ns`.
  double search_share(uint64_t prices, double step_ns) const {
    if (step_ns <= 0) return 0;
    return std::max(static_cast<double>(prices) * price_ns / step_ns - hidden_share, 0.0);
  }
};

struct SimulationConfig {
  std::string policy = "needed-cost";
  MemoryModel memory = MemoryModel::kPages;
  size_t budget_bytes = 0;
  uint32_t iterations = 1;    // of the trace, one after another; the last is scored
  bool end_resident = false;  // all that is alive at the end has to be resident at once
  remat::Limits limits;
  bool evict_singly = false;    // DTR's loop in place of windows and selections
  bool partition = false;       // Coop's: what is cheap lies at the other end of free memory
  bool record_in_place = true;  // off: what was written in place is a root
  bool recompute = true;        // off: nothing is recorded; contents leave only by copies
  TierModel tier;
  size_t granularity = 0;       // of pages; 0: by the trace's device
  double most_overhead = 5;     // more compute than this times the baseline's is a failure
  // Where the policy looks ahead: it does so from the beginning, or, as in a running job, once
  // something was evicted.
  bool step_history_at_once = true;
  StopToken* stop = nullptr;      // once it says so, all simulations fail
  bool check_invariants = false;  // of allocator and runtime, after each iteration
  PlannerConfig planner;          // for the policy `planned`

  bool searches_plans() const { return policy == "planned" && planner.simulations > 0; }
};

enum class SimulationStatus : uint8_t {
  kOk,
  kOutOfMemory,
  kThrash,  // more compute than is allowed, or a restoration without progress
};
const char* name_of(SimulationStatus status);

// Of the last iteration, or of the one that failed, unless it says otherwise.
struct SimulationResult {
  SimulationStatus status = SimulationStatus::kOk;
  std::string reason;      // why it failed
  double overhead = 0;     // compute, priced copies and maps included / baseline; 0 if it failed
  uint64_t iteration = 0;  // the iteration that the figures are of, from 1
  size_t limit_bytes = 0;  // the budget that it ran under: an oracle's may be smaller (fallback.h)
  uint64_t compute_ns = 0, baseline_ns = 0;
  uint64_t evictions = 0, evicted_bytes = 0;
  uint64_t operators_replayed = 0;
  uint64_t copied_bytes = 0, remapped_bytes = 0;
  uint64_t stored_bytes = 0, loaded_bytes = 0;  // to a tier, and back
  uint64_t windows = 0, remaps = 0;  // requests served so
  size_t peak_bytes = 0;             // handed out at once
  size_t reserved_peak_bytes = 0;    // of all iterations: held from the device
  double fragmentation = 0;          // mean share of the budget that was free when it was short
  uint64_t rematerializations = 0, ghosts = 0;
  uint64_t longest_plan = 0;     // of all iterations: records
  uint64_t plan_peak_bytes = 0;  // likewise: the most that a restoration was to hold
  uint64_t prices = 0;           // that searches for room asked for
  uint64_t search_ns = 0;        // measured: looking for room
  uint64_t planning_ns = 0;      // measured: planning restorations
  uint64_t wall_ns = 0;          // measured: the iteration's simulation
};

// Throws: std::invalid_argument naming an unknown policy and the known ones.
void check_policy(const std::string& name);

}  // namespace tidepool::plan
