// find_plans: a search for plans for the next steps of a job, by simulation of a recorded step in
// the job's own kind of memory. The step comes as a trace, which the recorder of a running job
// makes with a TraceBuilder, so that no files are involved.
// The first candidates are the prices of all policies that PlannedPolicy has. Then the search takes
// the best of them, changes the weights of single results, of all results of one operator, or of a
// stretch of the step at random, and keeps what is better (hill climbing). Last come plans that say
// what is dropped between which uses (gap_search.h): one takes its place if it is better. Each
// candidate is simulated, after a step without a plan, with the recorded times and again with
// perturbed ones and a little less memory (PlannerConfig::perturbed); it has to run with all of
// them, but where PlannerConfig::recorded_times_suffice says otherwise. Its score is the mean
// overhead, with the time of its searches for room (PlannerConfig::search_share()). Where there is
// a tier, half of the search is for plans by which nothing is copied that can leave in another way.
// A long step is simulated less often. Nothing depends on a clock, unless SimulationConfig::stop
// has one: the same step gives the same plans. For a running job, background_planner.h makes the
// search. Thread safe: searches share nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "remat/simulate/simulation.h"
#include "remat/steps/step_plan.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

struct RankedPlan {
  StepPlan plan;
  double score = 0;     // the mean overhead, searches for room included
  double overhead = 0;  // SimulationResult::overhead with the recorded times
};

// Returns plans under which `step` runs, the best first; none if it runs under no candidate. `job`
// gives memory, budget and limits; its policy and iterations are ignored. Requires: the trace ends
// with a mark.
std::vector<RankedPlan> find_plans(const Trace& step, const SimulationConfig& job,
                                   const PlannerConfig& config);

// BestPlan: which of some plans is the best for a step.
struct BestPlan {
  // Its number; nothing if the step runs best without one, or not at all.
  std::optional<size_t> plan;
  // What the step takes beyond its operators' time without a plan, searches for room included, as a
  // share of that time; 0 if it does not run.
  double share = 0;
};
// Simulates the step without a plan and with each of `plans`, as find_plans() does its candidates.
BestPlan best_plan(const Trace& step, const SimulationConfig& job, const PlannerConfig& config,
                   std::span<const StepPlan> plans);

// The most that a step under a plan should take, as such a share: what it takes without the plan,
// and what measured costs vary by.
inline double tolerated_share(double without) {
  constexpr double kTolerance = 1.05, kToleratedShare = 0.005;
  return kTolerance * without + kToleratedShare;
}

// WeightedOutput: a result that has bytes, for which a plan has a weight.
struct WeightedOutput {
  StorageIndex storage{};
  uint32_t name = 0;  // the number of its operator's name
};
// The step's results in the order of a plan's weights.
std::vector<WeightedOutput> weighted_outputs(const Trace& step);

// A plan's results, and a job's own outputs, as storages of a recording.
inline constexpr uint32_t kNoStorage = UINT32_MAX;
// The plan by the job's own numbers of outputs. `results`: the storages of the plan's results;
// `made`: those of the job's outputs (StepHistory), kNoStorage for one that is no storage of the
// recording.
StepPlan for_job(const StepPlan& plan, std::span<const uint32_t> results,
                 std::span<const uint32_t> made);

// The same trace with perturbed times: each operator's time is multiplied by a factor whose
// logarithm is normally distributed around 0, with `spread` as its standard deviation.
Trace with_other_times(const Trace& trace, double spread, uint64_t seed);

}  // namespace tidepool::remat
