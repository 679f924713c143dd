// find_plans: a search for what the next steps of a job should do, by simulation of a recorded step
// in the job's own kind of memory. Without any knowledge of files: the step comes as a trace, which
// whoever intercepts operators makes with a TraceBuilder (operators with costs, storages, deaths).
// Candidates are the prices of all policies that PlannedPolicy has, then the best of them with
// factors on the prices of single results, of all results of one kind of operator, or of a stretch
// of the step, changed at random and kept where that is better (hill climbing). Each is simulated
// with the recorded times, and again with others (PlannerConfig::perturbed), all of which it has to
// run; its score is the mean overhead. A long step is simulated less often. Nothing is measured by
// the clock: the same step gives the same plans.
// In a running job: the step's trace is taken at its end (Runtime::steps() is its number), this
// runs on a thread of its own, without the device's lock, and the first plan, with `step` set to
// that number, goes to Runtime::set_plan() whenever it is found; steps that have come in between
// matter only if they were different, and then the plan is not taken up. A job under a limit below
// its budget (fallback.h) gets it by BudgetedAllocator::set_limit() between two steps.
// Thread safe: searches share nothing.
#pragma once

#include <vector>

#include "remat/plan/simulator.h"
#include "remat/plan/trace.h"
#include "remat/step_plan.h"

namespace tidepool::plan {

struct RankedPlan {
  remat::StepPlan plan;
  double score = 0;  // mean overhead
};

// Plans under which `step` runs, the best first; none if no candidate does. `job`: memory, budget
// and limits; its policy and iterations are not looked at. Requires: the trace ends with a mark.
std::vector<RankedPlan> find_plans(const Trace& step, const SimulationConfig& job,
                                   const PlannerConfig& config);

// The same trace with other operator times: each multiplied by a factor of its own, whose logarithm
// is normally distributed around 0 with the given deviation.
Trace with_other_times(const Trace& trace, double spread, uint64_t seed);

}  // namespace tidepool::plan
