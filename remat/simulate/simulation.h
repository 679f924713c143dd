// Simulation: the settings of one run of a trace (SimulationConfig), and its figures
// (SimulationResult). Plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "remat/limits.h"
#include "remat/simulate/job/stop_token.h"
#include "remat/simulate/memory/memory_model.h"
#include "remat/simulate/memory/simulated_tier.h"
#include "remat/steps/foresight.h"

namespace tidepool::remat {

// PlannerConfig: the settings of a search for plans; see remat/plan/search/planner.h.
struct PlannerConfig {
  // The most simulations, those with perturbed times included; 0 stands for no search.
  size_t simulations = 300;
  // The search ends once it has simulated so many operators, replays included; a candidate that is
  // being tried is tried to its end. The policies get half of that once one of them runs. An
  // operator takes some microseconds to simulate.
  uint64_t operators = 3'000'000;
  // Each candidate is simulated as recorded, and so often with other times in a little less memory.
  size_t perturbed = 2;
  double spread = 0.1;  // the standard deviation of the logarithm of a perturbed time
  // Whether a candidate that runs with the recorded times is accepted where none runs with all
  // these times, and the step fails without a plan.
  bool recorded_times_suffice = false;
  // Whether the job goes on with such a step after it.
  bool follows_itself = true;
  uint64_t seed = 1;
  // The time that a search for room takes for each block that it prices, and the share of a step's
  // time that searches may take for nothing, because hosts run ahead of devices. Plans count what
  // is above that share as time of the step.
  double price_ns = 20;
  double hidden_share = 0.03;

  // The share of a step of `step_ns` that `prices` prices count for.
  double search_share(uint64_t prices, double step_ns) const {
    if (step_ns <= 0) return 0;
    return std::max(static_cast<double>(prices) * price_ns / step_ns - hidden_share, 0.0);
  }
};

struct SimulationConfig {
  std::string policy = "needed-cost";
  MemoryModel memory = MemoryModel::kPages;
  RoomWays ways = RoomWays::kAll;
  size_t budget_bytes = 0;
  uint32_t iterations = 1;    // how often the trace is run; the last iteration is scored
  bool end_resident = false;  // all storages alive at the end have to be resident at once
  Limits limits;
  bool evict_singly = false;    // DTR's loop in place of windows and selections
  bool partition = false;       // Coop's: cheap results lie at the other end of free memory
  bool record_in_place = true;  // if not, contents written in place are roots
  bool recompute = true;        // if not, nothing is recorded; contents leave only by copies
  TierModel tier;
  bool offloads_roots = true;  // whether contents without lineage may leave for the tier, too
  bool prefetches = true;      // whether copies come back before they are read (EarlyTransfers)
  size_t granularity = 0;      // the smallest page; 0 stands for that of the trace's device
  double most_overhead = 5;    // a run with more compute / baseline than this has failed
  // Whether a policy that looks ahead does so from the beginning, or, as in a running job, only
  // once something was evicted.
  bool step_history_at_once = true;
  StopToken* stop = nullptr;      // once it says so, simulations fail
  bool check_invariants = false;  // those of allocator and runtime, after each iteration
  PlannerConfig planner;          // for the policy `planned`

  bool searches_plans() const { return policy == "planned" && planner.simulations > 0; }
};

enum class SimulationStatus : uint8_t {
  kOk,
  kOutOfMemory,
  kThrash,  // there was more compute than is allowed, or a restoration made no progress
};
const char* name_of(SimulationStatus status);

// SimulationResult: figures of the last iteration, or of the one that failed, where a comment does
// not say that they are of all iterations.
struct SimulationResult {
  SimulationStatus status = SimulationStatus::kOk;
  std::string reason;      // why the run failed
  double overhead = 0;     // compute, priced copies and maps included / baseline; 0 after a failure
  uint64_t iteration = 0;  // the number, from 1, of the iteration that the figures are of
  size_t limit_bytes = 0;  // the budget of the run, which an oracle may make smaller (fallback.h)
  uint64_t compute_ns = 0, baseline_ns = 0;
  uint64_t evictions = 0, evicted_bytes = 0;
  uint64_t operators_replayed = 0;
  uint64_t copied_bytes = 0, remapped_bytes = 0;
  uint64_t stored_bytes = 0, loaded_bytes = 0;  // copied to a tier, and back
  // That the job has waited for these, and the part of it for copies to the tier.
  uint64_t exposed_ns = 0, exposed_out_ns = 0;
  // Copied before the bytes were to leave, and what of that has not left by these copies.
  uint64_t written_behind_bytes = 0, write_behind_wasted_bytes = 0;
  uint64_t prefetches = 0, prefetch_hits = 0;  // brought back early, and those then read
  uint64_t windows = 0, remaps = 0;            // requests served by a window, or by moving pages
  size_t peak_bytes = 0;                       // the most bytes handed out at once
  size_t reserved_peak_bytes = 0;  // the most bytes held from the device, in all iterations
  // The share of the budget that was free after a request that had something evicted: the mean.
  double fragmentation = 0;
  uint64_t rematerializations = 0, ghosts = 0;
  uint64_t longest_plan = 0;      // the most records of one restoration, in all iterations
  uint64_t plan_peak_bytes = 0;   // the most bytes a restoration was to hold, in all iterations
  uint64_t prices = 0;            // how many prices searches for room asked for
  ForesightStatistics foresight;  // of all iterations
  // Foreseen steps that were simulated, those for which a plan was better than none, and such plans
  // that were taken back, in all iterations.
  uint64_t foreseen_tried = 0, foreseen_plans = 0, foreseen_plans_taken_back = 0;
  uint64_t plans_found = 0;  // plans of a given file whose step the job has, in all iterations
  // Times by the clock: of searches for room, of planning restorations, of the whole iteration.
  uint64_t search_ns = 0;
  uint64_t planning_ns = 0;
  uint64_t wall_ns = 0;
};

// Throws: std::invalid_argument naming an unknown policy and the known ones.
void check_policy(const std::string& name);

}  // namespace tidepool::remat
