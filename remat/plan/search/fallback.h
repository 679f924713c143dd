// Fallback: a limit below the budget under which a known trace runs, where it fails under the
// budget itself. Online policies have holes, budgets that fail although a smaller one does not: the
// policy evicts other storages, and a chain of replays is pinned at a bad moment. A job need not
// use all of its budget. Limits are multiples of peak / kFallbackSteps, so that all budgets choose
// from the same limits, but for those above them. Hence a trace that runs under a budget runs under
// every greater one.
#pragma once

#include <cstddef>
#include <functional>

#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// A percent of the peak is a whole number of steps.
inline constexpr size_t kFallbackSteps = 400;

// The greatest limit that is not above the budget, counted in steps; 0 if the budget is below one
// step.
size_t fallback_steps(size_t peak_bytes, size_t budget_bytes);
// The limit of so many steps, in bytes.
size_t fallback_limit(size_t peak_bytes, size_t steps);

// Returns the result under the greatest limit that is not above the budget and under which `run`
// succeeds; if it succeeds under none, the result under the greatest. Does not try limits below the
// trace's floor, under which nothing can run.
SimulationResult with_fallback(const Trace& trace, size_t budget_bytes,
                               const std::function<SimulationResult(size_t limit_bytes)>& run);

}  // namespace tidepool::remat
