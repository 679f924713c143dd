// SizePlanner: finds plans for steps of sizes that a job has not had yet, while they are under way.
// When such a step is foreseen (remat/steps/foresight.h), it takes the plans that were found for
// other sizes of its form, which say the same of the same results, simulates the foreseen step
// without a plan and with each of them, and hands the best to the policy, if that is better than
// none. The simulations run on a thread of their own; the step goes on meanwhile without a plan,
// and nothing depends on whether one comes. A plan counts for its size from then on. One whose step
// then replays more than the simulation without a plan did is taken back, and some sizes are left
// alone after it.
// Owns the recordings of a few forms, and their plans. Thread safety: wait(), stop() and
// statistics() wait for the simulating thread, or for a moment; all else requires the device's
// lock, under which nothing waits for it, unless all is found at once.
// Invariant: at most one thread simulates.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "allocator/locks/mutex.h"
#include "remat/plan/background/recorded_step.h"
#include "remat/plan/search/planner.h"
#include "remat/runtime.h"
#include "remat/steps/step_history.h"

namespace tidepool::remat {

struct SizePlannerConfig {
  PlannerConfig planner;
  SimulationConfig job;    // as BackgroundPlannerConfig has it, with the job's pages
  StopToken::Clock clock;  // measures simulations, on their thread
  // Whether the step waits for the simulations, in jobs that have to run the same way twice, and in
  // simulated jobs, where they take no time.
  bool at_once = false;
  // The share of the job's own time that simulations may take.
  double most_share = 0.02;
};

// SizePlannerStatistics: counters since the start.
struct SizePlannerStatistics {
  uint64_t tried = 0;       // foreseen steps that were simulated
  uint64_t plans = 0;       // of them, those for which a plan was better than none
  uint64_t taken_back = 0;  // of these, those whose step then replayed more than without one
  uint64_t search_ns = 0;   // the time of simulations
};

class SizePlanner {
 public:
  SizePlanner(Runtime& runtime, const SizePlannerConfig& config);
  // Requires: no simulation is under way.
  ~SizePlanner();
  SizePlanner(const SizePlanner&) = delete;
  SizePlanner& operator=(const SizePlanner&) = delete;

  // Whether it can use another recorded step of a form: the job has had several sizes of it.
  bool wants(uint64_t form) const;
  // A step of the form was recorded. Does nothing if the job has had one size of it only.
  void add(uint64_t form, std::shared_ptr<const RecordedStep> recorded);
  // Plans that were found for the trace of that step, the best first.
  void add_plans(uint64_t form, std::span<const RankedPlan> plans);

  // Simulates the step that is foreseen. `facts`: the device's.
  void foreseen(const StepHistory& history, const TraceFacts& facts);
  // A step has ended. `share`: what it took for replays and searches, as a share of its operators'
  // time. Returns what such a step takes without a plan, as simulated, if it had one and keeps it.
  std::optional<double> step_ended(const StepEnd& end, double share);

  void wait();
  // Tells simulations to end soon, and begins no other. Returns whether they have, by then.
  bool stop(std::chrono::steady_clock::time_point until);
  SizePlannerStatistics statistics() const;
  size_t bookkeeping_bytes() const;

 private:
  static constexpr size_t kMostForms = 4;
  static constexpr size_t kMostSearches = 2;  // recorded steps of a form that are searched
  static constexpr size_t kMostPlans = 6;     // of a form that are tried for another size

  // Form: a recorded step of one, and plans for its trace.
  struct Form {
    uint64_t form = 0;
    uint64_t last = 0;    // the fingerprint of the last such step
    size_t sizes = 0;     // how often a step was of another size than the one before it
    size_t searches = 0;  // how many of its steps were recorded
    std::shared_ptr<const RecordedStep> recorded;
    std::vector<StepPlan> plans;
    uint32_t left_alone = 0;  // how many foreseen steps are still left alone
    uint32_t caution = 1;     // how many will be after the next plan that is taken back
  };
  // Attempt: the simulation of a foreseen step.
  struct Attempt {
    StepList foreseen;
    std::shared_ptr<const RecordedStep> recorded;
    std::vector<StepPlan> plans;
    TraceFacts facts;
    StopToken stop;
    // What was found: a plan for the job, and what the step takes without one beyond its
    // operators' time, as a share of that.
    std::optional<StepPlan> plan;
    double share = 0;
    uint64_t took_ns = 0;
    bool over = false;  // guarded by mutex_; before, all this is the simulating thread's
  };

  const Form* find(uint64_t form) const;
  Form* find(uint64_t form);
  Form& note_form(uint64_t form);
  bool has_time();
  void start(const std::shared_ptr<Attempt>& attempt);
  void simulate(Attempt& attempt) const;
  void finish(const std::shared_ptr<Attempt>& attempt);

  Runtime& runtime_;
  const SizePlannerConfig config_;

  // What follows is guarded by the device's lock.
  std::vector<Form> forms_;           // in the order of their last steps
  std::shared_ptr<Attempt> attempt_;  // of the present step; null if there is none
  uint64_t computed_ns_ = 0;          // of the job's operators, when the last step ended

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::shared_ptr<Attempt> running_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  SizePlannerStatistics statistics_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // what the last simulation took
};

}  // namespace tidepool::remat
