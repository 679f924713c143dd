#include "remat/plan/search/fallback.h"

#include <algorithm>

#include "remat/trace/trace_peak.h"

namespace tidepool::remat {

size_t fallback_limit(size_t peak_bytes, size_t steps) {
  // The product is split in two, so that it does not overflow.
  return peak_bytes / kFallbackSteps * steps + peak_bytes % kFallbackSteps * steps / kFallbackSteps;
}

size_t fallback_steps(size_t peak_bytes, size_t budget_bytes) {
  size_t low = 0;
  size_t high = kFallbackSteps;
  while (fallback_limit(peak_bytes, high) < budget_bytes && high < kFallbackSteps * 1000) high *= 2;
  while (low < high) {
    const size_t middle = (low + high + 1) / 2;
    if (fallback_limit(peak_bytes, middle) <= budget_bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

SimulationResult with_fallback(const Trace& trace, size_t budget_bytes,
                               const std::function<SimulationResult(size_t limit_bytes)>& run) {
  const TracePeak peak = trace_peak(trace);
  const size_t most = fallback_steps(peak.peak_bytes, budget_bytes);
  SimulationResult first = run(std::max<size_t>(fallback_limit(peak.peak_bytes, most), 1));
  if (first.status == SimulationStatus::kOk) return first;
  for (size_t steps = most; steps-- > 1;) {
    const size_t limit_bytes = fallback_limit(peak.peak_bytes, steps);
    if (limit_bytes < peak.floor_bytes) break;
    const SimulationResult result = run(limit_bytes);
    if (result.status == SimulationStatus::kOk) return result;
  }
  return first;
}

}  // namespace tidepool::remat
