// Fallback: for a trace that is known, a limit below the budget under which it runs, where under
// the budget itself it would fail. Online policies have holes: budgets that fail although a smaller
// one does (they evict otherwise, and a chain of replays is pinned at a bad moment). A job need not
// use all that it may. Limits are the multiples of the peak / kSteps, so that every budget has the
// same to choose from but for those above it. Hence: what runs under a budget runs under every
// greater one.
#pragma once

#include <cstddef>
#include <functional>

#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::plan {

// A percent of the peak is a whole number of steps.
inline constexpr size_t kFallbackSteps = 400;

// The greatest limit that is not above the budget, counted in steps; 0: the budget is below the
// first.
size_t fallback_steps(size_t peak_bytes, size_t budget_bytes);
size_t fallback_limit(size_t peak_bytes, size_t steps);

// The result under the greatest limit that is not above the budget and under which `run` succeeds;
// if none does, the result under the greatest. Does not try what cannot do: limits below the
// trace's floor.
SimulationResult with_fallback(const Trace& trace, size_t budget_bytes,
                               const std::function<SimulationResult(size_t limit_bytes)>& run);

}  // namespace tidepool::plan
