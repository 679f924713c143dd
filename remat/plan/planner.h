// find_plans: a search for what the next steps of a job should do, by simulation of a recorded step
// in the job's own kind of memory. Without any knowledge of files: the step comes as a trace, which
// whoever intercepts operators makes with a TraceBuilder (operators with costs, storages, deaths).
// Candidates are the prices of all policies that PlannedPolicy has, then the best of them with
// factors on the prices of single results, of all results of one kind of operator, or of a stretch
// of the step, changed at random and kept where that is better (hill climbing). Each is simulated
// with the recorded times, and again with others (PlannerConfig::perturbed), all of which it has to
// run (but see PlannerConfig::recorded_times_suffice), after a step without a plan; its score is
// the mean overhead, with what its searches for room would take (PlannerConfig::search_share()). A
// long step is simulated less often. Nothing is measured by the clock, unless a search is told to
// end by one (SimulationConfig::stop): the same step gives the same plans.
// A running job has it from background_planner.h.
// Thread safe: searches share nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "remat/policies/step_plan.h"
#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::plan {

struct RankedPlan {
  remat::StepPlan plan;
  double score = 0;     // mean overhead, searches for room included
  double overhead = 0;  // with the recorded times, as SimulationResult has it
};

// Plans under which `step` runs, the best first; none if no candidate does. `job`: memory, budget
// and limits; its policy and iterations are not looked at. Requires: the trace ends with a mark.
std::vector<RankedPlan> find_plans(const Trace& step, const SimulationConfig& job,
                                   const PlannerConfig& config);

// A result that a plan has a weight for: one that has bytes.
struct WeightedOutput {
  StorageIndex storage{};
  uint32_t name = 0;  // of its operator
};
// Of the step, in the order of weights.
std::vector<WeightedOutput> weighted_outputs(const Trace& step);

// The same trace with other operator times: each multiplied by a factor of its own, whose logarithm
// is normally distributed around 0 with the given deviation.
Trace with_other_times(const Trace& trace, double spread, uint64_t seed);

}  // namespace tidepool::plan
