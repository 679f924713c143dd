// trace_plans: plans for the steps of a recorded job, found by the planner's own search
// (planner.h), as a plan file has them.
#pragma once

#include <string>
#include <vector>

#include "remat/plan/follow/plan_file.h"
#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// The steps of a trace, each kind once: the last of those that have one digest.
std::vector<Trace> distinct_steps(const Trace& trace);

struct TracePlans {
  PlanFile file;  // a plan for each step that runs under the budget
  // By step of the file: its SimulationResult::overhead, in a process that has run it before.
  std::vector<double> overheads;
  size_t failed = 0;  // how many steps run under no plan
};

// `job` gives memory, budget, limits and the search. Throws: as check_policy().
TracePlans find_trace_plans(const Trace& trace, const SimulationConfig& job);

}  // namespace tidepool::remat
