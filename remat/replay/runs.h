// Runs: the simulations of one tidepool-replay, one for each policy and budget, several at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "remat/plan/chain/chain_plan.h"
#include "remat/plan/follow/trace_plans.h"
#include "remat/plan/simulator.h"
#include "remat/replay/options.h"
#include "remat/trace/trace_peak.h"

namespace tidepool::remat {

// Run: the settings of one simulation, and its result.
struct Run {
  std::string trace;
  std::string policy;
  MemoryModel memory = MemoryModel::kPages;
  uint32_t iterations = 1;
  bool oracle = false;
  double ratio = 0;  // the budget / the peak of a run without budget
  size_t budget_bytes = 0;
  std::optional<double> lower_bound;      // on the overhead; nothing if no schedule fits the budget
  std::shared_ptr<const PlanFile> plans;  // those that it follows; nullptr for none
  SimulationResult result;
};

// Reads a trace in the format of the options. Throws: TraceError; std::runtime_error.
Trace load_trace(const ReplayOptions& options, const std::string& path);

// The runs that the options ask for, without results: policy by policy, from the smallest budget
// up.
std::vector<Run> plan_runs(const ReplayOptions& options, const Trace& trace);

// Looks for plans for the steps of the trace under the options' one budget.
TracePlans find_plans_of(const ReplayOptions& options, const Trace& trace);

// LeastBudget: the least bytes that a trace runs with.
struct LeastBudget {
  std::string trace;
  std::string policy;
  MemoryModel memory = MemoryModel::kPages;
  TracePeak peak;   // its floor_bytes are a lower bound, whatever is evicted and when
  ChainPlan chain;  // a schedule of segments, proved for memory where bytes are fungible
  // Found by simulation of the policy in the memory; nothing if it runs with no budget tried.
  std::optional<size_t> simulated_bytes;
};
// One for each policy of the options.
std::vector<LeastBudget> find_least_budgets(const ReplayOptions& options, const Trace& trace);

// Fills in the results of all runs, options.jobs at a time. `progress` is called after each run
// with the number of runs done, by one thread at a time. Throws: what simulate() throws, once no
// run is under way.
void execute_runs(const ReplayOptions& options, const Trace& trace, std::vector<Run>& runs,
                  const std::function<void(size_t done)>& progress);

}  // namespace tidepool::remat
