// simulate: one run of a trace under a budget, by the allocator, runtime and policy of production
// over addresses without memory, with a virtual clock. Its figures are those of a running job:
// under the policy `planned` a BackgroundPlanner watches it, records a step, and searches. Only
// searches differ from a job's: they take no time, so that the plan is there when the recorded step
// ends, and no clock ends them. Deterministic, but for the times that the simulation itself took.
// Thread safe: runs share nothing but the trace, which they only read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "remat/plan/follow/plan_file.h"
#include "remat/simulate/job/work_log.h"
#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// Runs all iterations, or up to the first that fails, as a job would. `history` gets all that is
// done for the job meanwhile; it has blocks. `plans`: a file that the job follows, in place of a
// search. `step_ended` is called at each end of a step, with the compute of the iteration so far.
// Throws: as check_policy().
SimulationResult simulate(const Trace& recorded, const SimulationConfig& config,
                          WorkLog* history = nullptr,
                          std::shared_ptr<const PlanFile> plans = nullptr,
                          const std::function<void(uint64_t compute_ns)>& step_ended = {});

// Runs one iteration without a search for plans, as a recorded job does, and writes a log of it
// (work_log.h). Throws: as check_policy(); std::runtime_error if the log cannot be written.
SimulationResult simulate_logged(const Trace& recorded, const SimulationConfig& config,
                                 const std::string& log_path);

}  // namespace tidepool::remat
