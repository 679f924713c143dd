#include "remat/plan/background/background_planner.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "remat/lineage/lineage.h"
#include "remat/plan/search/least_budget.h"
#include "remat/plan/search/planner.h"
#include "remat/record/service_thread.h"
#include "remat/simulate/job/step_trace.h"

namespace tidepool::remat {
namespace {

constexpr uint32_t kMostPatience = 64;
constexpr uint32_t kTrialSteps = 2;
// What a plan may lose in steps after its trial, more than it gains between them, as a share of a
// step's operators' time. A step may run ten times as long under a plan that has been good for
// others, where room is made a little differently and more is evicted than was foreseen.
constexpr double kMostLost = 0.5;
constexpr uint32_t kFirstSteps = 2;  // the steps that are simulated to find a budget to try
constexpr uint64_t kMostTryingNs = 2'000'000'000, kMostTryingsNs = 6'000'000'000;
constexpr double kMostTryingOverhead = 20;
// A budget to try is greater by one part in so many than the least that simulations found: the
// job's memory is not laid out quite as theirs.
constexpr size_t kMargin = 100;
constexpr size_t kMostKinds = 16;  // the kinds of step of which something is remembered
constexpr std::chrono::seconds kPatienceAtEnd{5};

uint64_t thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

struct BackgroundPlanner::Search {
  std::shared_ptr<const RecordedStep> recorded;
  uint64_t form = 0;
  StopToken stop;
  // What was found, once the search is over: plans for the recorded step's trace, the best first,
  // and the best of them for the job, if it is better than none.
  std::vector<RankedPlan> ranked;
  std::optional<StepPlan> plan;
};

namespace {

SizePlannerConfig sizes_config(const BackgroundPlannerConfig& config, size_t page_bytes) {
  SizePlannerConfig sizes;
  sizes.planner = config.planner;
  sizes.planner.perturbed = 0;
  sizes.job = config.job;
  sizes.job.granularity = page_bytes;
  sizes.clock = config.search_clock ? config.search_clock : thread_ns;
  sizes.at_once = config.foresees_at_once;
  return sizes;
}

}  // namespace

BackgroundPlanner::BackgroundPlanner(Runtime& runtime, BudgetedAllocator& allocator,
                                     const BackgroundPlannerConfig& config)
    : runtime_(runtime),
      allocator_(allocator),
      config_(config),
      recording_(std::make_unique<RecordedStep>()),
      sizes_(runtime, sizes_config(config, allocator.page_bytes())) {
  set_recording(true);
}

BackgroundPlanner::~BackgroundPlanner() {
  stop();
  wait();
}

size_t BackgroundPlanner::bookkeeping_bytes() const {
  return EventRecorder::bookkeeping_bytes() + recording_->bookkeeping_bytes() + bytes_of(kinds_) +
         sizes_.bookkeeping_bytes();
}

void BackgroundPlanner::made(const ObservedCall& call) {
  if (phase_ != Phase::kBeginning) recording_->note(call);
}

void BackgroundPlanner::foreseen(const StepHistory& history) {
  if (!forked_) sizes_.foreseen(history, facts());
}

void BackgroundPlanner::before_event() {
  if (filling()->events.size() < config_.most_events) return;
  set_recording(false);
  if (phase_ == Phase::kBeginning) filling() = std::make_unique<JobEvents>();
}

bool BackgroundPlanner::step_ended(const StepEnd& end) {
  if (end.step != 0 && end.step == last_.step) return recording();  // the step had no operators
  const StepEnd before = std::exchange(last_, end);
  start_step();
  if (forked_) return false;
  repeats_ = end.repeated ? repeats_ + 1 : 0;
  alike_ = end.form_repeated ? alike_ + 1 : 0;
  Kind& kind = note_step(end, before);
  if (const auto share = sizes_.step_ended(end, kind.share)) {
    kind.share_before = *share;
    kind.trial = Trial{.steps = kTrialSteps};
  }
  if (phase_ == Phase::kBeginning) {
    go_on_beginning();
    return recording();
  }
  if (phase_ == Phase::kRecording) {
    phase_ = Phase::kWatching;
    const bool known = end.repeated || (end.form_repeated && sizes_.wants(end.form));
    if (known && !kind.searched && kind.evicted) start_search(end, kind);
    set_recording(false);
    return false;
  }
  if (phase_ == Phase::kSearching) {
    watch_search(end.fingerprint);
    return false;
  }
  if (end.repeated && kind.trial) judge_plan(kind);
  const Kind* const next = find_kind(end.expected);
  const bool again = next != nullptr && !next->searched && next->evicted && repeats_ > 0;
  // Which size comes next nobody knows.
  const bool alike = kind.evicted && alike_ > 0 && sizes_.wants(end.form);
  if (!(again && repeats_ >= patience_) && !(alike && alike_ >= patience_)) return false;
  start_recording(end);
  return true;
}

void BackgroundPlanner::go_on_beginning() {
  if (recording()) {
    add(EventKind::kStep);
    if (first_steps_ == 0) first_end_ = filling()->events.size();
    if (++first_steps_ < kFirstSteps) return;
    beginning_ = std::exchange(filling(), std::make_unique<JobEvents>());
  }
  filling()->clear();
  set_recording(false);
  phase_ = Phase::kWatching;
}

BackgroundPlanner::Kind* BackgroundPlanner::find_kind(uint64_t fingerprint) {
  for (Kind& kind : kinds_) {
    if (kind.fingerprint == fingerprint) return &kind;
  }
  return nullptr;
}

BackgroundPlanner::Kind& BackgroundPlanner::note_step(const StepEnd& end, const StepEnd& before) {
  Kind kind;
  kind.fingerprint = end.fingerprint;
  if (const Kind* const known = find_kind(end.fingerprint)) kind = *known;
  std::erase_if(kinds_, [&](const Kind& other) { return other.fingerprint == kind.fingerprint; });
  if (kinds_.size() == kMostKinds) kinds_.erase(kinds_.begin());
  const double own_ns = static_cast<double>(end.computed_ns - before.computed_ns);
  const uint64_t lost_ns = end.replayed_ns - before.replayed_ns + end.waited_ns - before.waited_ns;
  const double share = static_cast<double>(lost_ns) / std::max(own_ns, 1.0) +
                       config_.planner.search_share(end.prices - before.prices, own_ns);
  if (!kind.searched && !kind.trial) kind.share_before = (kind.share + share) / 2;
  kind.share = share;
  kind.evicted = end.evictions != before.evictions;
  return kinds_.emplace_back(kind);
}

// Notes the end of a step during a search.
void BackgroundPlanner::watch_search(uint64_t fingerprint) {
  absent_ = fingerprint == searched_ ? 0 : absent_ + 1;
  if (!is_searching()) {
    finish_search();
  } else if (absent_ >= kMostKinds && repeats_ >= patience_) {
    last_search_->stop.request_stop();
  }
}

// Gives the plan that was found to the runtime. This happens between steps and on the job's thread:
// a thread of low priority that held the device's lock would have the job wait for whatever else
// the machine does.
void BackgroundPlanner::finish_search() {
  phase_ = Phase::kWatching;
  sizes_.add_plans(last_search_->form, last_search_->ranked);
  Kind* const kind = find_kind(searched_);
  if (!last_search_->plan) {
    if (kind != nullptr && last_search_->stop.stop_requested()) kind->searched = false;
    return;
  }
  runtime_.set_plan(*last_search_->plan);
  if (kind != nullptr) kind->trial.emplace();
  const MutexLock guard(mutex_);
  ++statistics_.plans;
}

void BackgroundPlanner::start_recording(const StepEnd& end) {
  phase_ = Phase::kRecording;
  filling()->clear();
  forget_storages();
  *recording_ = {};
  recording_->limit_bytes = allocator_.limit_bytes();
  recording_->allocated_bytes = end.allocated_bytes;
  recording_->tier = model_of(runtime_.tier());
  recording_->offloads_roots = runtime_.offloads_roots();
  set_recording(true);
}

void BackgroundPlanner::start_search(const StepEnd& end, Kind& kind) {
  patience_ = std::min(patience_ * 2, kMostPatience);
  if (!recording()) {  // the step was too long
    kind.searched = true;
    filling() = std::make_unique<JobEvents>();
    *recording_ = {};
    return;
  }
  // The step cannot be used if another thread's operator was under way when it began or ended.
  if (recording_->outputs.size() != end.outputs) return;
  add(EventKind::kStep);
  recording_->resident_bytes = resident_bytes();
  recording_->events = std::exchange(filling(), std::make_unique<JobEvents>());
  recording_->fingerprint = end.fingerprint;
  recording_->follows_itself = end.expected == end.fingerprint;
  auto search = std::make_shared<Search>();
  search->recorded = std::make_shared<const RecordedStep>(std::move(*recording_));
  search->form = end.form;
  *recording_ = {};
  if (!start(search)) return;
  sizes_.add(end.form, search->recorded);
  last_search_ = std::move(search);
  kind.searched = true;
  searched_ = end.fingerprint;
  absent_ = 0;
  phase_ = Phase::kSearching;
}

void BackgroundPlanner::judge_plan(Kind& kind) {
  Trial& trial = *kind.trial;
  trial.lost += kind.share - tolerated_share(kind.share_before);
  const bool was_tried = trial.steps == kTrialSteps;
  if (!was_tried) ++trial.steps;
  const bool ends_trial = !was_tried && trial.steps == kTrialSteps;
  if (trial.lost <= (ends_trial ? 0 : kMostLost)) {
    if (trial.steps == kTrialSteps) trial.lost = std::max(trial.lost, 0.0);
    return;
  }
  kind.trial.reset();
  StepPlan none;
  none.fingerprint = kind.fingerprint;
  runtime_.set_plan(none);
  const MutexLock guard(mutex_);
  ++statistics_.taken_back;
}

// Begins a search on a thread of its own. Returns false if there can be no thread.
bool BackgroundPlanner::start(std::shared_ptr<Search> search) {
  const MutexLock guard(mutex_);
  if (stopped_ || search_ != nullptr) return false;
  try {
    start_service_thread("tidepool-plan", [this, search] {
      if (config_.search_niceness > 0) {
        setpriority(PRIO_PROCESS, 0, config_.search_niceness);  // sets this thread's
      }
      try {
        find(*search);
      } catch (const std::exception&) {
        // There is no plan: the step cannot be simulated, or there is no memory.
      }
      const MutexLock done(mutex_);
      statistics_.search_ns += thread_ns();
      search_ = nullptr;
      changed_.notify_all();
    });
  } catch (const std::exception&) {
    return false;
  }
  search_ = std::move(search);
  ++statistics_.searches;
  return true;
}

TraceFacts BackgroundPlanner::facts() const {
  TraceFacts facts = config_.facts;
  facts.map_ns = allocator_.remap_ns_per_page();
  facts.drain_ns = allocator_.drain_ns();
  return facts;
}

// Searches, on the searching thread. There is no plan if the step runs best without one.
void BackgroundPlanner::find(Search& search) const {
  const Trace trace = search.recorded->trace(facts());
  if (search.stop.stop_requested()) return;
  SimulationConfig job = search.recorded->simulated_as(config_.job);
  job.granularity = allocator_.page_bytes();
  search.stop.set_limit(config_.search_clock ? config_.search_clock : thread_ns,
                        config_.most_search_ns);
  job.stop = &search.stop;
  PlannerConfig planner = config_.planner;
  planner.follows_itself = search.recorded->follows_itself;
  search.ranked = find_plans(trace, job, planner);
  if (search.stop.stop_requested() || search.ranked.empty()) return;
  const StepPlan& best = search.ranked.front().plan;
  if (best.is_none()) return;
  search.plan = search.recorded->for_job(best, trace);
  search.plan->fingerprint = search.recorded->fingerprint;
}

void BackgroundPlanner::find_budget_to_try(OutOfMemoryReport& report) {
  if (forked_ || tried_ns_ >= kMostTryingsNs) return;
  if (report.limit_bytes < report.budget_bytes) return;  // no budget gets more from the device
  std::shared_ptr<const JobEvents> events;
  uint32_t first_steps = 0;
  size_t first_end = 0;
  SimulationConfig job = config_.job;
  {
    const DeviceLock lock(allocator_.mutex());
    events = beginning_;
    first_steps = first_steps_;
    first_end = first_end_;
    job.tier = model_of(runtime_.tier());
    job.offloads_roots = runtime_.offloads_roots();
    if (phase_ == Phase::kBeginning && recording()) {
      const auto operands = runtime_.running_operands();
      events = std::make_shared<JobEvents>(with_request(operands, report.requested_bytes));
    }
  }
  if (events == nullptr) return;
  const uint64_t start_ns = thread_ns();
  try {
    TraceBuilder builder(facts());
    play(*events, builder);
    const Trace trace = builder.take();
    job.policy = "planned";
    job.most_overhead = kMostTryingOverhead;
    StopToken stop;
    stop.set_limit(config_.search_clock ? config_.search_clock : thread_ns, kMostTryingNs);
    job.stop = &stop;
    const size_t least = std::max(report.lower_bound_budget_bytes, report.budget_bytes + 1);
    auto found = least_budget(trace, job, least);
    // In the middle of the second step, its rest is taken to be as in the first step.
    std::optional<size_t> again;
    if (first_steps == 1 && found) again = least_budget(twice(trace, first_end), job, *found);
    if (again) found = again;
    if (found) report.budget_to_try_bytes = *found + *found / kMargin;
    report.tried_steps = first_steps > 1 || again;
  } catch (const std::exception&) {
    // The report gets no budget: the job cannot be simulated, or there is no memory.
  }
  tried_ns_ += thread_ns() - start_ns;
}

// Does not wait for the mutex: the thread of low priority may hold it, and is searching then.
bool BackgroundPlanner::is_searching() const {
  if (!mutex_.try_lock()) return true;
  const bool searching = search_ != nullptr;
  mutex_.unlock();
  return searching;
}

void BackgroundPlanner::wait() {
  if (!forked_) sizes_.wait();
  for (bool over = false; !over && !forked_;) {
    {
      const MutexLock guard(mutex_);
      while (search_ != nullptr) changed_.wait(mutex_);
    }
    const DeviceLock lock(allocator_.mutex());
    // Meanwhile another thread's step may have begun another search.
    over = phase_ != Phase::kSearching || !is_searching();
    if (over && phase_ == Phase::kSearching) finish_search();
  }
}

bool BackgroundPlanner::stop() {
  if (forked_) return true;
  const auto end = std::chrono::steady_clock::now() + kPatienceAtEnd;
  const bool sizes_over = sizes_.stop(end);
  const MutexLock guard(mutex_);
  stopped_ = true;
  if (search_ != nullptr) search_->stop.request_stop();
  while (search_ != nullptr) {
    if (changed_.wait_until(mutex_, end) == std::cv_status::timeout) break;
  }
  return search_ == nullptr && sizes_over;
}

// A forked process has no searching thread, and the mutex may be locked in it for ever: from now on
// neither is used.
void BackgroundPlanner::forked() { forked_ = true; }

BackgroundPlannerStatistics BackgroundPlanner::statistics() const {
  if (forked_) return {};
  const SizePlannerStatistics sizes = sizes_.statistics();
  const MutexLock guard(mutex_);
  BackgroundPlannerStatistics statistics = statistics_;
  statistics.sizes = sizes;
  return statistics;
}

}  // namespace tidepool::remat
