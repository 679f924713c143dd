// BackgroundPlanner: looks for plans while the job runs, as planner.h says, and gives them to the
// runtime. Steps are of one kind if they have the same fingerprint. Once the job repeats its steps,
// and the next step is expected to be of a kind that had to evict and has no plan, that step is
// recorded. If it was of that kind, a thread of low priority searches for a plan, which steps of
// the kind follow from then on (PlannedPolicy). So a job with two optimizers gets two plans, one
// after the other, and steps that differ now and then, because the job writes its log, do not make
// a plan obsolete. Where steps do the same with ever other sizes, one of whatever size is recorded
// and searched, and SizePlanner tries its plans for others. A plan is taken back if its first steps
// replay and search more than the steps before it did, or if later ones have lost more than half a
// step (a cumulative sum, Page, Continuous inspection schemes, 1954). With every search the number
// of repeated steps doubles that the next search waits for. While nothing is recorded, the planner
// hears only of the ends of steps. A search that fails, or a lack of threads, is no error: the job
// goes on with the policy that it has. Owns the search under way. The observer's functions need the
// device's lock; the others must not have it. Thread safe. Invariants: (1) those of EventRecorder;
// (2) at most one search is under way, and it is told to stop once the job has long done steps of
// other kinds only.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "allocator/budgeted_allocator.h"
#include "allocator/locks/mutex.h"
#include "remat/plan/background/recorded_step.h"
#include "remat/plan/background/size_planner.h"
#include "remat/record/event_recorder.h"
#include "remat/runtime.h"
#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

struct BackgroundPlannerConfig {
  PlannerConfig planner;
  // The settings of steps' simulations, with the job's limits. A budget of 0 stands for the
  // allocator's limit.
  SimulationConfig job;
  TraceFacts facts;             // the device's; the cost of moving a page comes from the allocator
  size_t most_events = 60'000;  // a step that has more is not planned for
  // A search that has taken so long ends with the best plan that it has found.
  uint64_t most_search_ns = 20'000'000'000;
  // Measures searches, on their thread. An empty function stands for the thread's own time.
  StopToken::Clock search_clock;
  // The niceness of the searching thread; 0: that of the thread which begins the search, for jobs
  // that wait for plans.
  int search_niceness = 19;
  // Whether plans for foreseen sizes are found at once, before the step goes on.
  bool foresees_at_once = false;
};

// BackgroundPlannerStatistics: counters since the start.
struct BackgroundPlannerStatistics {
  uint64_t searches = 0;    // searches begun
  uint64_t plans = 0;       // plans found that are better than what the policy does without one, or
                            // plans of a given file whose steps the job has
  uint64_t taken_back = 0;  // plans taken back
  uint64_t search_ns = 0;   // the searching threads' own time
  SizePlannerStatistics sizes;
};

class BackgroundPlanner final : public EventRecorder {
 public:
  // Requires: the runtime and the allocator outlive the planner, and the runtime's policy follows
  // plans. Does not make itself the runtime's observer.
  BackgroundPlanner(Runtime& runtime, BudgetedAllocator& allocator,
                    const BackgroundPlannerConfig& config);
  // Requires: the runtime does not know this observer any more.
  ~BackgroundPlanner();
  BackgroundPlanner(const BackgroundPlanner&) = delete;
  BackgroundPlanner& operator=(const BackgroundPlanner&) = delete;

  bool step_ended(const StepEnd& end) override;
  void foreseen(const StepHistory& history) override;
  // The bytes of the recording. A search has memory of its own while it runs.
  size_t bookkeeping_bytes() const override;
  void forked() override;

  // Waits until no search is under way and the plan that was found is followed, for jobs that have
  // to run the same way twice.
  void wait();
  // Makes the search under way end soon, without a plan, and begins no other. Waits for its end,
  // but not for long: a thread of low priority may not get to run. Returns whether it has ended.
  bool stop();

  BackgroundPlannerStatistics statistics() const;

  // Adds a budget to try to the report of a request that has failed on this thread, if simulations
  // of the job's first steps, or of what it has done of them, find one. Needs seconds of the
  // thread's own time, at most six in all calls. Takes the device's lock.
  void find_budget_to_try(OutOfMemoryReport& report);

 private:
  enum class Phase : uint8_t { kBeginning, kWatching, kRecording, kSearching };
  struct Search;
  // Trial: how a plan has done in the job.
  struct Trial {
    uint32_t steps = 0;  // judged so far, up to kTrialSteps
    double lost = 0;     // what they took more than tolerated, in shares of a step
  };
  // Kind: the steps that have one fingerprint.
  struct Kind {
    uint64_t fingerprint = 0;
    bool evicted = false;   // whether the last such step had to evict
    bool searched = false;  // whether no search has to begin for this kind
    // The time that the last such step took for replays, waits for a tier and, by estimate,
    // searches for room, as a share of its operators' time.
    double share = 0;
    // `share` without a plan: the mean over two steps, or as simulated.
    double share_before = 0;
    std::optional<Trial> trial;  // nothing: the kind has no plan that could be taken back
  };

  void before_event() override;
  void made(const ObservedCall& call) override;
  void go_on_beginning();
  Kind* find_kind(uint64_t fingerprint);
  Kind& note_step(const StepEnd& end, const StepEnd& before);
  void watch_search(uint64_t fingerprint);
  void finish_search();
  void start_recording(const StepEnd& end);
  void start_search(const StepEnd& end, Kind& kind);
  void judge_plan(Kind& kind);
  bool start(std::shared_ptr<Search> search);
  // The facts of the job's device, with prices as they are known now.
  TraceFacts facts() const;
  void find(Search& search) const;
  bool is_searching() const;

  Runtime& runtime_;
  BudgetedAllocator& allocator_;
  const BackgroundPlannerConfig config_;

  // What follows is guarded by the device's lock.
  Phase phase_ = Phase::kBeginning;
  uint32_t first_steps_ = 0;  // how many of the job's first steps were recorded
  size_t first_end_ = 0;      // how many events the first step has
  // The job's first steps, once they are over; null if they were too long.
  std::shared_ptr<const JobEvents> beginning_;
  std::atomic<uint64_t> tried_ns_{0};  // the threads' time that looking for budgets to try took
  uint32_t repeats_ = 0;               // steps in a row that did what an earlier step did
  uint32_t alike_ = 0;                 // steps in a row that did so with whatever sizes
  uint32_t patience_ = 1;              // the repeats that are needed before a step is recorded
  StepEnd last_;
  std::vector<Kind> kinds_;  // in the order of their last steps
  std::unique_ptr<RecordedStep> recording_;
  std::shared_ptr<Search> last_search_;
  uint64_t searched_ = 0;  // the fingerprint of the kind that last_search_ is for
  uint32_t absent_ = 0;    // how many steps in a row were of other kinds
  bool forked_ = false;
  SizePlanner sizes_;

  // It may be taken while the device's lock is held, but not the other way round.
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::shared_ptr<Search> search_ ABSL_GUARDED_BY(mutex_);  // the one under way
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  BackgroundPlannerStatistics statistics_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::remat
