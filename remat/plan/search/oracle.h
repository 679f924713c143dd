// simulate_with_oracle: one run of a trace with more knowledge than a running job has, to see what
// that knowledge would be worth. From the second iteration on the trace counts as known:
// - an iteration before the last that fails is followed by a job that knows the whole step;
// - steps follow a plan as soon as the first step has ended, one found with the operator times that
//   the next iteration will have; up to four plans are tried, the best first;
// - a run that fails under the budget gets a smaller limit under which it does not (fallback.h).
// Thread safe: runs share nothing but the trace, which they only read.
#pragma once

#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// Requires: config.iterations > 1. Throws: as check_policy().
SimulationResult simulate_with_oracle(const Trace& trace, const SimulationConfig& config);

}  // namespace tidepool::remat
