#include "remat/replay/runs.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "fmt/format.h"
#include "remat/plan/search/least_budget.h"
#include "remat/plan/search/oracle.h"
#include "remat/simulate/list_parts.h"
#include "remat/simulate/memory/lower_bound.h"
#include "remat/trace/trace_format.h"

namespace tidepool::remat {
namespace {

SimulationConfig config_for(const ReplayOptions& options, const Run& run) {
  SimulationConfig config;
  config.policy = run.policy == "default" ? kDefaultPolicy : run.policy;
  config.planner = options.planner;
  config.memory = run.memory;
  config.ways = options.ways;
  config.budget_bytes = run.budget_bytes;
  config.iterations = options.iterations;
  config.evict_singly = options.evict_singly;
  config.partition = options.partition;
  config.record_in_place = options.record_in_place;
  config.recompute = options.recompute;
  config.prefetches = options.prefetches;
  config.offloads_roots = options.offloads_roots;
  config.tier = options.tier;
  config.granularity = options.page_bytes;
  const bool dtr = options.format == TraceFormat::kDtr;
  config.end_resident = options.end_resident.value_or(dtr);
  if (!options.lineage_limits.value_or(!dtr)) config.limits = Limits::none();
  return config;
}

}  // namespace

Trace load_trace(const ReplayOptions& options, const std::string& path) {
  Trace trace =
      options.format == TraceFormat::kDtr ? read_dtr_log(path, options.mutation) : read_trace(path);
  TraceFacts& facts = trace.facts;
  facts.map_ns = options.map_ns.value_or(facts.map_ns);
  facts.drain_ns = options.drain_ns.value_or(facts.drain_ns);
  facts.copy_bytes_per_ns = options.copy_bytes_per_ns.value_or(facts.copy_bytes_per_ns);
  return trace;
}

std::vector<Run> plan_runs(const ReplayOptions& options, const Trace& trace) {
  const auto peak = static_cast<double>(trace_peak(trace).peak_bytes);
  std::vector<Run> runs;
  std::shared_ptr<const PlanFile> plans;
  if (!options.plan_path.empty()) {
    plans = std::make_shared<const PlanFile>(read_plan_file(options.plan_path));
  }
  for (const std::string& policy : options.policies) {
    Run run;
    run.trace = trace.facts.name;
    run.policy = policy;
    run.memory = options.memory;
    run.iterations = options.iterations;
    run.oracle = options.oracle;
    run.plans = plans;
    if (options.ratios.empty()) {
      run.budget_bytes = options.budget_bytes;
      run.ratio = peak > 0 ? static_cast<double>(options.budget_bytes) / peak : 0;
      runs.push_back(run);
    }
    for (const double ratio : options.ratios) {
      run.ratio = ratio;
      run.budget_bytes = static_cast<size_t>(std::llround(ratio * peak));
      runs.push_back(run);
    }
  }
  return runs;
}

TracePlans find_plans_of(const ReplayOptions& options, const Trace& trace) {
  ReplayOptions planned = options;
  planned.policies = {kDefaultPolicy};
  const std::vector<Run> runs = plan_runs(planned, trace);
  return find_trace_plans(trace, config_for(options, runs.front()));
}

std::vector<LeastBudget> find_least_budgets(const ReplayOptions& options, const Trace& trace) {
  LeastBudget found;
  found.trace = trace.facts.name;
  found.memory = options.memory;
  found.peak = trace_peak(trace);
  found.chain = plan_chain(trace);
  std::vector<LeastBudget> budgets;
  for (const std::string& policy : options.policies) {
    Run run;
    run.policy = found.policy = policy;
    run.memory = options.memory;
    const SimulationConfig config = config_for(options, run);
    // Roots that may leave need not be there at once.
    const bool roots_leave = config.tier.capacity_bytes > 0 && config.offloads_roots;
    found.simulated_bytes = least_budget(trace, config, roots_leave ? 1 : found.peak.floor_bytes);
    budgets.push_back(found);
  }
  return budgets;
}

void execute_runs(const ReplayOptions& options, const Trace& trace, std::vector<Run>& runs,
                  const std::function<void(size_t done)>& progress) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t done = 0;
  std::exception_ptr failure;
  auto work = [&] {
    for (size_t k = next++; k < runs.size(); k = next++) {
      try {
        const SimulationConfig config = config_for(options, runs[k]);
        std::optional<WorkLog> history;
        if (!options.history_path.empty()) history.emplace(options.history_path, true);
        if (config.tier.capacity_bytes == 0) {  // it does not know of copies
          const JobTrace in_job(trace, config);
          runs[k].lower_bound = lower_bound(*in_job, config.budget_bytes, config.end_resident);
        }
        runs[k].result = options.oracle ? simulate_with_oracle(trace, config)
                         : options.log_path.empty()
                             ? simulate(trace, config, history ? &*history : nullptr, runs[k].plans)
                             : simulate_logged(trace, config, options.log_path);
      } catch (...) {
        std::lock_guard guard(mutex);
        failure = std::current_exception();
        next = runs.size();
        return;
      }
      std::lock_guard guard(mutex);
      progress(++done);
    }
  };
  size_t workers =
      options.jobs > 0 ? options.jobs : std::max(1u, std::thread::hardware_concurrency());
  workers = std::min(workers, runs.size());
  std::vector<std::thread> threads;
  for (size_t k = 1; k < workers; ++k) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  for (const Run& run : runs) {
    const bool ran = run.result.status == SimulationStatus::kOk;
    if (run.plans != nullptr && ran && run.result.plans_found == 0) {
      throw PlanFileError(
          fmt::format("{}: is for none of the steps of {}: for other sizes, or "
                      "another model",
                      options.plan_path, trace.facts.name));
    }
  }
}

}  // namespace tidepool::remat
