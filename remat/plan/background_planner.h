// BackgroundPlanner: looks for plans while the job runs (planner.h says how), and gives them to the
// runtime. Once steps are as steps before them were, and the next should be of a kind that had to
// evict and has no plan, it is recorded; if it is of that kind, a thread of low priority searches,
// and steps of this kind follow what it finds (PlannedPolicy). So a job with two optimizers gets
// two plans, one after the other. Steps that differ now and then, because the job writes its log,
// do not make a plan obsolete. A plan whose steps replay and search more than those before it did
// is taken back. With every search the job has to repeat itself for longer before there is another.
// While nothing is recorded it hears of nothing but the ends of steps. Neither a search that fails
// nor a lack of threads is an error: the job goes on with the policy that it has.
// Owns the search under way. The observer's functions need the device's lock; the others must not
// have it. Thread safe.
// Invariants: (1) those of EventRecorder; (2) one search is under way at most; it is told to stop
// once the job has long done other steps than those that it is for.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "allocator/budgeted_allocator.h"
#include "remat/record/event_recorder.h"
#include "remat/runtime.h"
#include "remat/simulate/simulation.h"
#include "remat/trace/trace.h"

namespace tidepool::plan {

struct BackgroundPlannerConfig {
  PlannerConfig planner;
  // How steps are simulated: the job's limits. No budget: the allocator's.
  SimulationConfig job;
  TraceFacts facts;             // of the job's device; the allocator knows what a page costs
  size_t most_events = 60'000;  // a step that has more is not planned for
  // A search that has taken so long ends with the best that it has found.
  uint64_t most_search_ns = 20'000'000'000;
  StopToken::Clock search_clock;  // on the searching thread; empty: the time that it has computed
  int search_niceness = 19;       // of the searching thread
};

// Counters since the start.
struct BackgroundPlannerStatistics {
  uint64_t searches = 0;  // begun
  uint64_t plans = 0;     // found, and better than what the policy does without one
  uint64_t taken_back = 0;
  uint64_t search_ns = 0;  // of threads' time
};

class BackgroundPlanner final : public EventRecorder {
 public:
  // Both outlive it. The runtime's policy is one that follows plans; the observer is not set.
  BackgroundPlanner(remat::Runtime& runtime, BudgetedAllocator& allocator,
                    const BackgroundPlannerConfig& config);
  // Requires: the runtime does not know this observer any more.
  ~BackgroundPlanner();
  BackgroundPlanner(const BackgroundPlanner&) = delete;
  BackgroundPlanner& operator=(const BackgroundPlanner&) = delete;

  bool step_ended(const remat::StepEnd& end) override;
  // Of the recording; a search has memory of its own for as long as it takes.
  size_t bookkeeping_bytes() const override;
  void forked() override;

  // Until no search is under way, and what was found is followed: for jobs that are to run the same
  // way twice.
  void wait();
  // The search under way ends soon, without a plan, and there will be no other. Waits for it, but
  // not for long: a thread of low priority may not get to run. True if it has ended.
  bool stop();

  BackgroundPlannerStatistics statistics() const;

  // Adds to the report of a request on this thread that has failed a budget to try, if one is
  // found: by simulation of the job's first steps, or of what it has done of them. Takes seconds,
  // at most six in all, of the thread's own time. Takes the device's lock.
  void find_budget_to_try(OutOfMemoryReport& report);

 private:
  enum class Phase : uint8_t { kBeginning, kWatching, kRecording, kSearching };
  struct Recording;
  struct Search;
  // A kind of step: all that have one fingerprint.
  struct Kind {
    uint64_t fingerprint = 0;
    bool evicted = false;  // the last one had to
    bool searched = false;
    uint32_t trial_steps = 0;  // under a new plan, that are still to be looked at
    // What the last one replayed and, by estimate, searched, of its own operators' time.
    double share = 0;
    double share_before = 0;    // the mean of two without a plan
    double planned_shares = 0;  // sum of those under the new plan
  };

  void before_event() override;
  void made(std::span<remat::Storage* const> outputs) override;
  void go_on_beginning();
  Kind* find_kind(uint64_t fingerprint);
  Kind& note_step(const remat::StepEnd& end, const remat::StepEnd& before);
  void watch_search(uint64_t fingerprint);
  void finish_search();
  void start_recording(const remat::StepEnd& end);
  void start_search(const remat::StepEnd& end, Kind& kind);
  void judge_plan(Kind& kind);
  bool start(std::shared_ptr<Recording> recorded, std::shared_ptr<Search> search);
  // With prices as they are known now.
  TraceFacts facts() const;
  std::optional<remat::StepPlan> find(const Recording& recorded, Search& search) const;
  bool is_searching() const;

  remat::Runtime& runtime_;
  BudgetedAllocator& allocator_;
  const BackgroundPlannerConfig config_;

  // With the device's lock.
  Phase phase_ = Phase::kBeginning;
  uint32_t first_steps_ = 0;  // that were recorded
  size_t first_end_ = 0;      // of the first: how many events it has
  std::shared_ptr<const JobEvents>
      beginning_;                      // of the job, once it is over; null: it was too long
  std::atomic<uint64_t> tried_ns_{0};  // of threads' time: for budgets to try
  uint32_t repeats_ = 0;               // steps in a row that did the same as the one before
  uint32_t patience_ = 1;              // so many have to, before one is recorded
  remat::StepEnd last_;
  std::vector<Kind> kinds_;  // the latest last
  std::unique_ptr<Recording> recording_;
  std::shared_ptr<Search> last_search_;
  uint64_t searched_ = 0;  // the fingerprint of the steps that it is for
  uint32_t absent_ = 0;    // so many steps in a row were others
  bool forked_ = false;

  // With mutex_, which is taken while the device's lock is held, but not the other way round.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Search> search_;  // the one under way
  bool stopped_ = false;
  BackgroundPlannerStatistics statistics_;
};

}  // namespace tidepool::plan
