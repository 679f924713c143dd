#include "remat/plan/simulator.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "remat/plan/background/background_planner.h"
#include "remat/plan/follow/plan_follower.h"
#include "remat/simulate/job/block_log.h"
#include "remat/simulate/list_parts.h"
#include "remat/simulate/simulated_process.h"

namespace tidepool::remat {
namespace {

// Planning: the BackgroundPlanner of a simulated job, where the job's policy follows plans, or the
// PlanFollower of one that is given a file.
class Planning {
 public:
  Planning(SimulatedProcess& process, const Trace& trace, const SimulationConfig& config,
           std::shared_ptr<const PlanFile> plans)
      : process_(process) {
    if (plans != nullptr) {
      follower_.emplace(process.runtime(), std::move(plans));
      observe(*follower_);
      return;
    }
    if (!config.searches_plans()) return;
    BackgroundPlannerConfig own;
    own.planner = config.planner;
    own.job = config;
    own.facts = trace.facts;
    own.facts.blocks = false;  // a recorded step has no blocks
    own.search_clock = [] { return uint64_t{0}; };
    own.search_niceness = 0;  // the simulation waits for the search
    own.foresees_at_once = true;
    planner_.emplace(process.runtime(), process.allocator(), own);
    observe(*planner_);
  }
  ~Planning() {
    if (allocator_observer() == nullptr) return;
    process_.runtime().set_observer(nullptr);
    process_.allocator().set_observer(nullptr);
  }
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

  // Who has to be told of all blocks; nullptr if nobody.
  AllocatorObserver* allocator_observer() {
    if (follower_) return &follower_->allocator_observer();
    return planner_ ? &planner_->allocator_observer() : nullptr;
  }
  size_t plans_found() const { return follower_ ? follower_->found() : 0; }
  SizePlannerStatistics sizes() const {
    return planner_ ? planner_->statistics().sizes : SizePlannerStatistics();
  }

  void step_ended() {
    if (planner_) planner_->wait();
  }

 private:
  void observe(EventRecorder& recorder) {
    process_.allocator().set_observer(&recorder.allocator_observer());
    process_.runtime().set_observer(&recorder);
  }

  SimulatedProcess& process_;
  std::optional<BackgroundPlanner> planner_;
  std::optional<PlanFollower> follower_;
};

SimulationConfig as_in_a_job(SimulationConfig config) {
  config.step_history_at_once = false;
  return config;
}

}  // namespace

SimulationResult simulate(const Trace& recorded, const SimulationConfig& config, WorkLog* history,
                          std::shared_ptr<const PlanFile> plans,
                          const std::function<void(uint64_t compute_ns)>& step_ended) {
  SimulationConfig job = as_in_a_job(config);
  const JobTrace in_job(recorded, job);
  const Trace& trace = *in_job;
  job.step_history_at_once = plans != nullptr;
  SimulationResult result;
  result.limit_bytes = job.budget_bytes;
  result.iteration = 1;
  const std::unique_ptr<SimulatedProcess> process = SimulatedProcess::make(trace, job);
  if (process == nullptr) {
    result.status = SimulationStatus::kOutOfMemory;
    result.reason = "the budget is less than one page of the memory";
    return result;
  }
  Planning planning(*process, trace, job, std::move(plans));
  std::optional<BlockLog> blocks;
  if (history != nullptr) {
    history->begin_iteration(result.iteration);
    process->set_log(history);
    blocks.emplace(*history, process->allocator(), planning.allocator_observer());
  }
  const auto ended = [&](size_t) {
    planning.step_ended();
    if (step_ended) step_ended(process->compute_ns());
  };
  while (process->run_iteration(&result, ended) && result.iteration < job.iterations) {
    ++result.iteration;
    if (history != nullptr) history->begin_iteration(result.iteration);
  }
  process->report(&result);
  result.plans_found = planning.plans_found();
  const SizePlannerStatistics sizes = planning.sizes();
  result.foreseen_tried = sizes.tried;
  result.foreseen_plans = sizes.plans;
  result.foreseen_plans_taken_back = sizes.taken_back;
  return result;
}

SimulationResult simulate_logged(const Trace& recorded, const SimulationConfig& config,
                                 const std::string& log_path) {
  const SimulationConfig job = as_in_a_job(config);
  const JobTrace in_job(recorded, job);
  const Trace& trace = *in_job;
  SimulationResult result;
  result.limit_bytes = job.budget_bytes;
  result.iteration = 1;
  WorkLog log(log_path);
  const std::unique_ptr<SimulatedProcess> process = SimulatedProcess::make(trace, job);
  if (process == nullptr) throw std::runtime_error("the budget is less than one page");
  process->set_log(&log);
  process->run_iteration(&result);
  process->report(&result);
  return result;
}

}  // namespace tidepool::remat
