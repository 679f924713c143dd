// job_of(): what a small trace is simulated with, in tests of plans.
#pragma once

#include "remat/simulate/simulation.h"
#include "remat/trace/trace_peak.h"

namespace tidepool::remat {

// The step under a budget of this part of its peak, where bytes are fungible.
inline SimulationConfig job_of(const Trace& step, double ratio) {
  SimulationConfig job;
  job.memory = MemoryModel::kExact;
  job.budget_bytes = static_cast<size_t>(static_cast<double>(trace_peak(step).peak_bytes) * ratio);
  job.planner.price_ns = 0;  // operators of a microsecond: searches would count for more
  return job;
}

}  // namespace tidepool::remat
