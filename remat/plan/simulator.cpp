#include "remat/plan/simulator.h"

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "remat/plan/fallback.h"
#include "remat/plan/planner.h"
#include "remat/plan/process.h"
#include "remat/plan/step_trace.h"
#include "remat/plan/trace_peak.h"
#include "remat/policy.h"

namespace tidepool::plan {
namespace {

// A process that has not begun, and knows the trace.
std::unique_ptr<Process> make_informed(const Trace& trace, const SimulationConfig& config) {
  SimulationConfig ample = config;
  ample.memory = MemoryModel::kExact;
  ample.budget_bytes = trace_peak(trace).peak_bytes;
  const std::unique_ptr<Process> teacher = Process::make(trace, ample);
  SimulationResult ignored;
  teacher->run_iteration(&ignored);
  std::unique_ptr<Process> process = Process::make(trace, config);
  process->learn_from(*teacher);
  return process;
}

// Plans for the steps of one trace under one limit; found once, and remembered.
class Plans {
 public:
  Plans(const Trace& trace, const SimulationConfig& config) : trace_(trace), config_(config) {}

  // A step has ended with event `end`: the process gets the plan of the given rank, unless the one
  // that it has still holds, or the job has just shown that it does not repeat itself.
  void step_ended(Process& process, size_t end, size_t rank) {
    if (!config_.searches_plans()) return;
    const uint32_t step = process.runtime().steps();
    const uint32_t same_since = process.runtime().same_since();
    if (planned_ != 0 && planned_ == process.runtime().last_fingerprint()) return;
    if (step > 1 && same_since == step) return;
    give(process, end, rank);
  }
  void give(Process& process, size_t end, size_t rank) {
    if (!config_.searches_plans()) return;
    planned_ = process.runtime().last_fingerprint();
    const size_t begin = step_begin(trace_, end);
    const auto [found, missing] = found_.try_emplace({begin, end});
    if (missing) {
      found->second = find_plans(step_trace(trace_, begin, end), config_, config_.planner);
    }
    const std::vector<RankedPlan>& ranked = found->second;
    if (ranked.empty()) return;
    most_ = std::max(most_, ranked.size());
    remat::StepPlan plan = ranked[std::min(rank, ranked.size() - 1)].plan;
    plan.fingerprint = planned_;
    process.set_plan(plan);
  }
  void forget_step() { planned_ = 0; }
  size_t most() const { return most_; }

 private:
  const Trace& trace_;
  const SimulationConfig& config_;
  std::map<std::pair<size_t, size_t>, std::vector<RankedPlan>> found_;
  uint64_t planned_ = 0;  // the step that the present plan is for; 0: there is none
  size_t most_ = 0;            // plans found for one step
};

// Runs all iterations under the budget, and scores the last.
SimulationResult run_all(const Trace& trace, const SimulationConfig& config, Plans& plans,
                         size_t rank) {
  SimulationResult result;
  result.limit_bytes = config.budget_bytes;
  plans.forget_step();
  std::unique_ptr<Process> process = Process::make(trace, config);
  if (process == nullptr) {
    result.status = SimulationStatus::kOutOfMemory;
    result.reason = "the budget is less than one handle of the memory";
    result.iteration = config.iterations;
    return result;
  }
  for (result.iteration = 1;; ++result.iteration) {
    result.status = SimulationStatus::kOk;
    result.reason.clear();
    const bool last = result.iteration == config.iterations;
    const bool done = process->run_iteration(&result, [&](size_t end) {
      if (!last || end < trace.events.size()) plans.step_ended(*process, end, rank);
    });
    if (last) break;
    // A job that failed starts over, but for what a whole iteration would have taught it.
    if (done) continue;
    process = make_informed(trace, config);
    plans.give(*process, trace.events.size(), rank);
  }
  process->report(&result);
  return result;
}

// With plans, tries those that ran in simulation one after the other, the best first: the job's own
// memory is not laid out as that of a fresh process.
SimulationResult run_all(const Trace& trace, const SimulationConfig& config) {
  constexpr size_t kAttempts = 4;
  Plans plans(trace, config);
  const SimulationResult first = run_all(trace, config, plans, 0);
  SimulationResult result = first;
  for (size_t rank = 1; rank < std::min(kAttempts, plans.most()); ++rank) {
    if (result.status == SimulationStatus::kOk) return result;
    result = run_all(trace, config, plans, rank);
  }
  return result.status == SimulationStatus::kOk ? result : first;
}

}  // namespace

const char* name_of(SimulationStatus status) {
  constexpr const char* kNames[] = {"ok", "out_of_memory", "thrash"};
  return kNames[static_cast<size_t>(status)];
}

void check_policy(const std::string& name) {
  struct Deaf final : remat::LineageStore::Observer {
    void value_dies(remat::Value&) override {}
  } observer;
  remat::LineageStore store(observer);
  remat::make_policy(name, store);
}

SimulationResult simulate(const Trace& trace, const SimulationConfig& config) {
  const bool fallback = config.fallback || config.searches_plans();
  if (!fallback || config.iterations < 2) return run_all(trace, config);
  return with_fallback(trace, config.budget_bytes, [&](size_t limit_bytes) {
    SimulationConfig limited = config;
    limited.budget_bytes = limit_bytes;
    return run_all(trace, limited);
  });
}

SimulationResult simulate_logged(const Trace& trace, const SimulationConfig& config,
                                 const std::string& log_path) {
  SimulationResult result;
  result.limit_bytes = config.budget_bytes;
  result.iteration = 1;
  WorkLog log(log_path);
  const std::unique_ptr<Process> process = Process::make(trace, config);
  if (process == nullptr) throw std::runtime_error("the budget is less than one handle");
  process->set_log(&log);
  process->run_iteration(&result);
  process->report(&result);
  return result;
}

}  // namespace tidepool::plan
