// simulate: one run of a trace under a budget: the allocator, runtime and policy of production over
// memory that is not there and a virtual clock. It is what a running job gets: under the policy
// `planned` the job's own BackgroundPlanner watches it, records a step, and searches. Only the time
// of a search is not the job's: the plan is there when the recorded step ends, no clock ends it.
// Deterministic but for the times it took itself.
// Thread safe: runs share nothing but the trace, which they only read.
#pragma once

#include <string>

#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::plan {

// Runs all iterations, or up to the one that fails: the job has failed then. Throws: as
// check_policy().
SimulationResult simulate(const Trace& trace, const SimulationConfig& config);

// One iteration without a search for plans, as a job has it that is recorded, with a log of what is
// done for it. Throws: as check_policy(); std::runtime_error if the log cannot be written.
SimulationResult simulate_logged(const Trace& trace, const SimulationConfig& config,
                                 const std::string& log_path);

}  // namespace tidepool::plan
