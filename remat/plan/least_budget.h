// least_budget: the least budget that a trace was found to run under, by bisection, in simulation:
// what an out-of-memory error gives as a budget to try. Each budget is simulated with the recorded
// times of operators, and with others: decisions depend on times, which vary from run to run.
// Online policies have holes: some budget below may do, too, and a greater one may not.
// Thread safe: searches share nothing.
#pragma once

#include <cstddef>
#include <optional>

#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::plan {

// To within a percent. None below `least_bytes` is considered. `job`: one iteration is simulated
// so, but for the budget; once its stop token says so, the least found so far counts. Nothing if
// none was.
std::optional<size_t> least_budget(const Trace& trace, const SimulationConfig& job,
                                   size_t least_bytes);

}  // namespace tidepool::plan
