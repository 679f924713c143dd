// simulate: one run of a trace under a budget: the allocator, runtime and policy of production over
// memory that is not there and a virtual clock. Deterministic but for the times it took itself.
// Thread safe: runs share nothing but the trace, which they only read.
#pragma once

#include <string>

#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::plan {

// Throws: as check_policy().
SimulationResult simulate(const Trace& trace, const SimulationConfig& config);

// One iteration, as a job has it that knows nothing, with a log of what is done for it. Throws: as
// check_policy(); std::runtime_error if the log cannot be written.
SimulationResult simulate_logged(const Trace& trace, const SimulationConfig& config,
                                 const std::string& log_path);

}  // namespace tidepool::plan
