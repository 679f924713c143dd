// BackgroundPlanner: looks for a plan while the job runs (planner.h says how), and gives it to the
// runtime. Once a step that had to evict repeats the one before, the next one is recorded; if that
// repeats it, too, a thread of low priority searches, and steps of this kind follow what it finds
// (PlannedPolicy). One that differs now and then, because the job writes its log, does not make a
// plan obsolete; steps that differ and repeat themselves do. A plan whose steps replay more than
// those before it did is taken back. With every search the job has to repeat itself for longer
// before there is another.
// While nothing is recorded it hears of nothing but the ends of steps. Neither a search that fails
// nor a lack of threads is an error: the job goes on with the policy that it has.
// Owns the search under way. The observer's functions need the device's lock; the others must not
// have it. Thread safe.
// Invariants: (1) those of EventRecorder; (2) one search is under way at most; it is told to stop
// once the job does something else than the step that it is for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "allocator/budgeted_allocator.h"
#include "remat/limits.h"
#include "remat/plan/event_recorder.h"
#include "remat/plan/simulator.h"
#include "remat/runtime.h"

namespace tidepool::plan {

struct BackgroundPlannerConfig {
  PlannerConfig planner;
  remat::Limits limits;         // the job's
  TraceFacts facts;             // of the job's device
  size_t most_events = 60'000;  // a step that has more is not planned for
};

// Counters since the start.
struct BackgroundPlannerStatistics {
  uint64_t searches = 0;   // begun
  uint64_t plans = 0;      // found, and better than what the policy does without one
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

  bool listens_at_once() const override { return false; }
  bool step_ended(const remat::StepEnd& end) override;
  void forked() override;

  // Until no search is under way: for jobs that are to run the same way twice.
  void wait();
  // The search under way ends soon, without a plan, and there will be no other. Waits for it, but
  // not for long: a thread of low priority may not get to run. True if it has ended.
  bool stop();

  BackgroundPlannerStatistics statistics() const;

 private:
  enum class Phase : uint8_t { kWatching, kRecording, kSearching, kTrying };
  struct Recording;
  struct Search;

  void before_event() override;
  void made(std::span<remat::Storage* const> outputs) override;
  bool start_recording(const remat::StepEnd& end);
  void start_search(const remat::StepEnd& end);
  void try_plan(double share);
  bool start(std::shared_ptr<Search> search, std::function<bool()> work);
  bool find(const Recording& recorded, const Search& search);
  bool is_searching() const;

  remat::Runtime& runtime_;
  BudgetedAllocator& allocator_;
  const BackgroundPlannerConfig config_;

  // With the device's lock.
  Phase phase_ = Phase::kWatching;
  uint32_t repeats_ = 0;   // steps in a row that did the same as the one before
  uint32_t patience_ = 1;  // so many have to, before one is recorded
  uint64_t planned_ = 0;   // the fingerprint of the steps that were searched for; 0: none
  remat::StepEnd last_;
  // What steps replay, as shares of their own operators' time: without a plan, and with it.
  double share_before_ = 0;
  double planned_shares_ = 0;  // sum
  uint32_t planned_steps_ = 0;
  std::unique_ptr<Recording> recording_;
  std::shared_ptr<Search> last_search_;  // that for the present step
  bool forked_ = false;

  // With mutex_, which is taken while the device's lock is held, but not the other way round.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Search> search_;  // the one under way
  bool stopped_ = false;
  BackgroundPlannerStatistics statistics_;
};

}  // namespace tidepool::plan
