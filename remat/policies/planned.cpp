#include "remat/policies/planned.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "allocator/base/check.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "remat/policies/needed_cost.h"

namespace tidepool::remat {

std::span<const std::string> PlannedPolicy::candidates() {
  static const auto* const kNames = new std::vector<std::string>{
      "needed-cost", "next-use", "dtr", "dtr-eq", "msps", "coop", "dtr-local", "lru", "size"};
  return *kNames;
}

PlannedPolicy::PlannedPolicy(LineageStore& store, Make make)
    : store_(store),
      make_(make),
      net_(std::make_unique<NeededCostPolicy>(store)),
      active_(net_.get()) {}

void PlannedPolicy::set_plan(const StepPlan& plan) {
  const auto names = candidates();
  if (std::find(names.begin(), names.end(), plan.policy) == names.end()) {
    throw std::invalid_argument(fmt::format("unknown policy '{}' in a plan; expected one of {}",
                                            plan.policy, fmt::join(names, ", ")));
  }
  std::erase_if(plans_,
                [&](const StepPlan& other) { return other.fingerprint == plan.fingerprint; });
  if (plans_.size() == kMostPlans) plans_.pop_front();
  plans_.push_back(plan);
  // A step under way that the plan is for goes on without a plan.
  if (plan.fingerprint != step_history_.expected_fingerprint()) return;
  expectation_ = step_history_.between_steps() ? 0 : step_history_.expectation();
  if (follows_plan()) use(*net_, {});
}

const StepPlan* PlannedPolicy::plan_for_step() const {
  if (!step_history_.matching()) return nullptr;
  for (const StepPlan& plan : plans_) {
    if (plan.fingerprint != step_history_.expected_fingerprint()) continue;
    const size_t outputs = step_history_.expected_outputs().size();
    return plan.weights.empty() || plan.weights.size() == outputs ? &plan : nullptr;
  }
  return nullptr;
}

// The first price of a step is asked for after the step's first operator has begun. Another step
// may be expected from the middle of a step on.
void PlannedPolicy::choose_plan() {
  expectation_ = step_history_.expectation();
  const StepPlan* const plan = plan_for_step();
  if (plan == nullptr) {
    if (follows_plan()) use(*net_, {});
    return;
  }
  std::vector<float> weights;
  if (!plan->weights.empty()) {
    const auto outputs = step_history_.expected_outputs();
    weights.assign(step_history_.expected_storages(), 1.0F);
    for (size_t k = 0; k < outputs.size(); ++k) weights[outputs[k].number] = plan->weights[k];
  }
  if (plan->policy == "needed-cost") {
    use(*net_, std::move(weights), plan->preference);
    return;
  }
  std::unique_ptr<Policy>& other = others_[fmt::format("{} {}", plan->policy, plan->use_share)];
  if (other == nullptr && plan->policy == "next-use") {
    other = std::make_unique<NextUsePolicy>(store_, step_history_, plan->use_share);
  } else if (other == nullptr) {
    other = make_(plan->policy, store_, 0);
  }
  use(*other, std::move(weights), plan->preference);
}

void PlannedPolicy::use(Policy& policy, std::vector<float> weights, Preference preference) {
  weights_ = std::move(weights);
  preference_ = preference;
  if (active_ == &policy) return;
  active_->forget_all();
  active_ = &policy;
  scale_ = policy.unit() / unit();
  store_.for_each_storage([](Storage& storage) { storage.above_epoch = storage.below_epoch = 0; });
  store_.for_each_value([&](Value& value) {
    if (!value.has_bytes() && value.producer != nullptr) policy.availability_changed(value);
  });
}

size_t PlannedPolicy::bookkeeping_bytes() const {
  size_t bytes = step_history_.bookkeeping_bytes() + net_->bookkeeping_bytes() + bytes_of(weights_);
  for (const auto& [name, policy] : others_) bytes += policy->bookkeeping_bytes();
  for (const StepPlan& plan : plans_) bytes += bytes_of(plan.weights);
  return bytes;
}

void PlannedPolicy::check_invariants() {
  TIDEPOOL_CHECK(!follows_plan() || !plans_.empty(), "invariant 1: %zu weights without a plan",
                 weights_.size());
  active_->check_invariants();
  step_history_.check_invariants();
}

}  // namespace tidepool::remat
