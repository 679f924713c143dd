// least_budget: the least budget under which a trace runs in simulation, found by bisection. An
// out-of-memory error reports it as a budget to try. Each budget is simulated with the recorded
// times of operators, and with others, because decisions depend on times, which vary from run to
// run. Online policies have holes: a smaller budget may do, too, and a greater one may not.
// The first guess is what a schedule of segments takes (chain_plan.h), so that little time is
// enough. Thread safe: searches share nothing.
#pragma once

#include <cstddef>
#include <optional>

#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// Returns the budget to within a percent. Budgets below `least_bytes` are not tried. One iteration
// is simulated with the settings `job`, but for its budget. Once the stop token of `job` says so,
// the least budget found so far is returned, or nothing if there is none.
std::optional<size_t> least_budget(const Trace& trace, const SimulationConfig& job,
                                   size_t least_bytes);

}  // namespace tidepool::remat
