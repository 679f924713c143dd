#include "remat/plan/search/least_budget.h"

#include <algorithm>
#include <vector>

#include "remat/plan/chain/chain_plan.h"
#include "remat/plan/search/planner.h"
#include "remat/simulate/list_parts.h"
#include "remat/simulate/simulated_process.h"
#include "remat/trace/trace_peak.h"

namespace tidepool::remat {
namespace {

constexpr size_t kOtherTimes = 2;
constexpr double kSpread = 0.1;  // as PlannerConfig::spread
constexpr size_t kParts = 100;   // a budget is found to within its 100th part
constexpr size_t kMargin = 20;   // memory with pages takes more than one of fungible bytes
constexpr size_t kGrowths = 8;   // how often the peak may grow by a quarter until the trace runs

bool runs_once(const Trace& trace, const SimulationConfig& config) {
  const JobTrace in_job(trace, config);
  const auto process = SimulatedProcess::make(*in_job, config);
  SimulationResult result;
  return process != nullptr && process->run_iteration(&result);
}

}  // namespace

std::optional<size_t> least_budget(const Trace& trace, const SimulationConfig& job,
                                   size_t least_bytes) {
  std::vector<Trace> others;
  const auto runs = [&](size_t budget_bytes) {
    SimulationConfig config = job;
    config.budget_bytes = budget_bytes;
    if (!runs_once(trace, config)) return false;
    for (size_t k = 0; k < kOtherTimes; ++k) {
      if (k == others.size()) others.push_back(with_other_times(trace, kSpread, k + 1));
      if (!runs_once(others[k], config)) return false;
    }
    return true;
  };
  size_t high = std::max(trace_peak(trace).peak_bytes, least_bytes);
  for (size_t growths = 0; !runs(high); high += high / 4 + 1) {
    if (++growths > kGrowths || (job.stop != nullptr && job.stop->should_stop()))
      return std::nullopt;
  }
  // `low` is a budget that does not run, or is not tried.
  size_t low = std::min(least_bytes, high) - std::min<size_t>(least_bytes, 1);
  // What a schedule of segments takes is near the least, and known without a simulation.
  const size_t chain = plan_chain(trace).bytes;
  size_t next = chain + chain / kMargin;
  while (high - low > high / kParts) {
    if (next <= low || next >= high) next = low + (high - low) / 2;
    (runs(next) ? high : low) = next;
    if (job.stop != nullptr && job.stop->should_stop()) break;
  }
  return high;
}

}  // namespace tidepool::remat
