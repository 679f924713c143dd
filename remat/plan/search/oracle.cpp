#include "remat/plan/search/oracle.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "remat/plan/search/fallback.h"
#include "remat/plan/search/planner.h"
#include "remat/simulate/job/step_trace.h"
#include "remat/simulate/list_parts.h"
#include "remat/simulate/simulated_process.h"
#include "remat/steps/step_history.h"
#include "remat/trace/trace_peak.h"

namespace tidepool::remat {
namespace {

// Plans: the plans for the steps of one trace under one limit. Each is searched for once.
class Plans {
 public:
  Plans(const Trace& trace, const SimulationConfig& config) : trace_(trace), config_(config) {}

  // Notes that a step has ended with event `end`, and gives the process a plan of the given rank
  // for steps of its kind. It gives none if the kind has a plan already, or if the job has not
  // repeated itself; the first step needs no repetition.
  void step_ended(SimulatedProcess& process, size_t end, size_t rank) {
    if (!config_.searches_plans()) return;
    note_step(process, end);
    const StepHistory history = process.runtime().step_history();
    if (history.step() == 2 || history.repeated()) {  // the number of the step that begins
      give(process, steps_.back(), rank);
    }
  }
  // Notes that a step has ended, and gives no plan.
  void note_step(const SimulatedProcess& process, size_t end) {
    steps_.push_back({end, process.runtime().step_history().last_fingerprint()});
  }
  // Gives the process plans for the trace's last steps: all of the trace is known.
  void iteration_ended(SimulatedProcess& process, size_t rank) {
    if (!config_.searches_plans()) return;
    const size_t most = std::min(steps_.size(), StepHistory::kKinds);
    for (const Step& step : std::span(steps_).last(most)) give(process, step, rank);
    steps_.clear();
  }
  void forget_steps() {
    given_.clear();
    steps_.clear();
  }
  size_t most() const { return most_; }

 private:
  struct Step {
    size_t end = 0;
    uint64_t fingerprint = 0;
  };

  void give(SimulatedProcess& process, const Step& step, size_t rank) {
    if (!given_.insert(step.fingerprint).second) return;
    const size_t begin = step_begin(trace_, step.end);
    const auto [found, missing] = found_.try_emplace({begin, step.end});
    if (missing) {
      PlannerConfig planner = config_.planner;
      planner.recorded_times_suffice = true;  // the next iteration has the same times
      planner.follows_itself = std::all_of(steps_.begin(), steps_.end(), [&](const Step& other) {
        return other.fingerprint == step.fingerprint;
      });
      found->second = find_plans(step_trace(trace_, begin, step.end), config_, planner);
    }
    const std::vector<RankedPlan>& ranked = found->second;
    if (ranked.empty()) return;
    most_ = std::max(most_, ranked.size());
    StepPlan plan = ranked[std::min(rank, ranked.size() - 1)].plan;
    plan.fingerprint = step.fingerprint;
    process.set_plan(plan);
  }

  const Trace& trace_;
  const SimulationConfig& config_;
  std::map<std::pair<size_t, size_t>, std::vector<RankedPlan>> found_;
  std::set<uint64_t> given_;  // the fingerprints of steps that have a plan
  std::vector<Step> steps_;   // the steps of the iteration under way
  size_t most_ = 0;           // the most plans that were found for one step
};

// A process that has not begun its job, but knows the trace.
std::unique_ptr<SimulatedProcess> make_informed(const Trace& trace, const SimulationConfig& config,
                                                Plans& plans, size_t rank) {
  SimulationConfig ample = config;
  ample.memory = MemoryModel::kExact;
  ample.budget_bytes = trace_peak(trace).peak_bytes;
  const std::unique_ptr<SimulatedProcess> teacher = SimulatedProcess::make(trace, ample);
  SimulationResult ignored;
  plans.forget_steps();
  teacher->run_iteration(&ignored, [&](size_t end) { plans.note_step(*teacher, end); });
  std::unique_ptr<SimulatedProcess> process = SimulatedProcess::make(trace, config);
  process->learn(teacher->runtime().step_history());
  plans.iteration_ended(*process, rank);
  return process;
}

// Runs all iterations under the budget, and scores the last.
SimulationResult run_all(const Trace& trace, const SimulationConfig& config, Plans& plans,
                         size_t rank) {
  SimulationResult result;
  result.limit_bytes = config.budget_bytes;
  plans.forget_steps();
  std::unique_ptr<SimulatedProcess> process = SimulatedProcess::make(trace, config);
  if (process == nullptr) {
    result.status = SimulationStatus::kOutOfMemory;
    result.reason = "the budget is less than one page of the memory";
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
    // A job that failed starts over, with the knowledge that a whole iteration would have given it.
    if (done) {
      plans.iteration_ended(*process, rank);
    } else {
      process = make_informed(trace, config, plans, rank);
    }
  }
  process->report(&result);
  return result;
}

// Runs all iterations, where plans are searched for with one rank of plans after the other, the
// best first, until one runs: the job's memory is not laid out as that of the fresh processes in
// which the search ran them.
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

SimulationResult simulate_with_oracle(const Trace& trace, const SimulationConfig& config) {
  return with_fallback(trace, config.budget_bytes, [&](size_t limit_bytes) {
    SimulationConfig limited = config;
    limited.budget_bytes = limit_bytes;
    const JobTrace in_job(trace, limited);
    return run_all(*in_job, limited);
  });
}

}  // namespace tidepool::remat
