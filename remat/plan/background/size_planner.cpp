#include "remat/plan/background/size_planner.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "remat/record/service_thread.h"
#include "remat/trace/trace_peak.h"

namespace tidepool::remat {
namespace {

constexpr uint64_t kFreeNs = 100'000'000;  // what simulations may take whatever the job takes
constexpr size_t kPlansOfSearch = 3;       // the best of a search are tried for other sizes
constexpr uint32_t kMostCaution = 64;

}  // namespace

SizePlanner::SizePlanner(Runtime& runtime, const SizePlannerConfig& config)
    : runtime_(runtime), config_(config) {}

SizePlanner::~SizePlanner() = default;

const SizePlanner::Form* SizePlanner::find(uint64_t form) const {
  const auto found = std::find_if(forms_.begin(), forms_.end(),
                                  [&](const Form& other) { return other.form == form; });
  return found == forms_.end() ? nullptr : &*found;
}

SizePlanner::Form* SizePlanner::find(uint64_t form) {
  return const_cast<Form*>(std::as_const(*this).find(form));
}

bool SizePlanner::wants(uint64_t form) const {
  const Form* const found = find(form);
  return found != nullptr && found->sizes > 1 && found->searches < kMostSearches;
}

// Moves the form to the end, or adds it there.
SizePlanner::Form& SizePlanner::note_form(uint64_t form) {
  if (const Form* const found = find(form)) {
    const auto at = forms_.begin() + (found - forms_.data());
    std::rotate(at, at + 1, forms_.end());
    return forms_.back();
  }
  if (forms_.size() == kMostForms) forms_.erase(forms_.begin());
  forms_.emplace_back().form = form;
  return forms_.back();
}

void SizePlanner::add(uint64_t form, std::shared_ptr<const RecordedStep> recorded) {
  Form* const found = find(form);
  if (found == nullptr || found->sizes < 2) return;
  ++found->searches;
  found->recorded = std::move(recorded);
}

void SizePlanner::add_plans(uint64_t form, std::span<const RankedPlan> plans) {
  Form* const found = find(form);
  if (found == nullptr || found->recorded == nullptr) return;
  std::vector<StepPlan> best;
  for (const RankedPlan& each : plans) {
    if (each.plan.is_none() || best.size() == kPlansOfSearch) continue;
    best.push_back(each.plan);
  }
  found->plans.insert(found->plans.begin(), best.begin(), best.end());
  if (found->plans.size() > kMostPlans) found->plans.resize(kMostPlans);
}

// Whether the job has computed for long enough since simulations took what they took so far.
bool SizePlanner::has_time() {
  if (config_.at_once) return true;
  if (!mutex_.try_lock()) return false;
  const auto allowed_ns =
      static_cast<uint64_t>(config_.most_share * static_cast<double>(computed_ns_)) + kFreeNs;
  const bool may =
      !stopped_ && running_ == nullptr && statistics_.search_ns + last_ns_ <= allowed_ns;
  mutex_.unlock();
  return may;
}

void SizePlanner::foreseen(const StepHistory& history, const TraceFacts& facts) {
  const StepList& list = history.expected_list();
  Form* const form = find(list.form);
  if (form == nullptr || form->recorded == nullptr || form->plans.empty()) return;
  if (form->left_alone > 0) {
    --form->left_alone;
    return;
  }
  if (!has_time()) return;
  auto attempt = std::make_shared<Attempt>();
  attempt->foreseen = list;
  attempt->recorded = form->recorded;
  attempt->plans = form->plans;
  attempt->facts = facts;
  attempt_ = attempt;
  start(attempt);
}

// Simulations have locks of their own devices, so that they always run on another thread.
void SizePlanner::start(const std::shared_ptr<Attempt>& attempt) {
  const MutexLock guard(mutex_);
  try {
    start_service_thread("tidepool-sizes", [this, attempt] {
      simulate(*attempt);
      finish(attempt);
    });
    running_ = attempt;
  } catch (const std::exception&) {
    attempt_ = nullptr;  // there can be no thread: the step goes on without a plan
  }
  while (config_.at_once && running_ != nullptr) changed_.wait(mutex_);
}

void SizePlanner::simulate(Attempt& attempt) const {
  const uint64_t start_ns = config_.clock();
  try {
    const Trace trace = foreseen_trace(*attempt.recorded, attempt.foreseen, attempt.facts);
    SimulationConfig job = attempt.recorded->simulated_as(config_.job);
    if (trace_peak(trace).peak_bytes > job.budget_bytes) {
      job.stop = &attempt.stop;
      const BestPlan best = best_plan(trace, job, config_.planner, attempt.plans);
      attempt.share = best.share;
      if (best.plan && !attempt.stop.stop_requested()) {
        attempt.plan = attempt.recorded->for_job(attempt.plans[*best.plan], trace);
        attempt.plan->fingerprint = attempt.foreseen.fingerprint;
        runtime_.post_plan(*attempt.plan);
      }
    }
  } catch (const std::exception&) {
    // There is no plan: the step cannot be simulated, or there is no memory.
  }
  attempt.took_ns = config_.clock() - start_ns;
}

void SizePlanner::finish(const std::shared_ptr<Attempt>& attempt) {
  const MutexLock guard(mutex_);
  ++statistics_.tried;
  statistics_.plans += attempt->plan.has_value();
  statistics_.search_ns += attempt->took_ns;
  last_ns_ = attempt->took_ns;
  attempt->over = true;
  running_ = nullptr;
  changed_.notify_all();
}

std::optional<double> SizePlanner::step_ended(const StepEnd& end, double share) {
  computed_ns_ = end.computed_ns;
  Form& form = note_form(end.form);
  if (form.last != end.fingerprint) ++form.sizes;
  form.last = end.fingerprint;
  const auto attempt = std::exchange(attempt_, nullptr);
  if (attempt == nullptr || end.foreseen != attempt->foreseen.fingerprint) return {};
  if (!mutex_.try_lock()) return {};
  const bool over = attempt->over;
  mutex_.unlock();
  if (!over || !attempt->plan) return {};
  // From now on the plan is for what the step really was, which bytes may tell from the foreseen.
  StepPlan plan = *attempt->plan;
  const bool is_bad = share > tolerated_share(attempt->share);
  if (is_bad) {
    plan = {};
    form.left_alone = form.caution;
    form.caution = std::min(form.caution * 2, kMostCaution);
    const MutexLock guard(mutex_);
    ++statistics_.taken_back;
  }
  plan.fingerprint = end.fingerprint;
  runtime_.set_plan(plan);
  if (is_bad) return {};
  return attempt->share;
}

void SizePlanner::wait() {
  const MutexLock guard(mutex_);
  while (running_ != nullptr) changed_.wait(mutex_);
}

bool SizePlanner::stop(std::chrono::steady_clock::time_point until) {
  const MutexLock guard(mutex_);
  stopped_ = true;
  if (running_ != nullptr) running_->stop.request_stop();
  while (running_ != nullptr) {
    if (changed_.wait_until(mutex_, until) == std::cv_status::timeout) break;
  }
  return running_ == nullptr;
}

SizePlannerStatistics SizePlanner::statistics() const {
  const MutexLock guard(mutex_);
  return statistics_;
}

size_t SizePlanner::bookkeeping_bytes() const {
  size_t bytes = bytes_of(forms_);
  for (const Form& form : forms_) {
    if (form.recorded != nullptr) bytes += form.recorded->bookkeeping_bytes();
    for (const StepPlan& plan : form.plans) {
      bytes += bytes_of(plan.weights) + (plan.gaps ? bytes_of(*plan.gaps) : 0);
    }
  }
  return bytes;
}

}  // namespace tidepool::remat
