#include "remat/policies/planned.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "allocator/check.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "remat/policies/need1.h"

namespace tidepool::remat {

std::span<const std::string> PlannedPolicy::candidates() {
  static const auto* const kNames = new std::vector<std::string>{
      "need1", "next-use", "dtr", "dtr-eq", "msps", "coop", "dtr-local", "lru", "size"};
  return *kNames;
}

PlannedPolicy::PlannedPolicy(LineageStore& store)
    : store_(store), net_(std::make_unique<Need1Policy>(store)), active_(net_.get()) {}

void PlannedPolicy::set_plan(const StepPlan& plan) {
  const auto names = candidates();
  if (std::find(names.begin(), names.end(), plan.policy) == names.end()) {
    throw std::invalid_argument(fmt::format("unknown policy '{}' in a plan; expected one of {}",
                                            plan.policy, fmt::join(names, ", ")));
  }
  plan_ = plan;
  // The step under way goes on without it.
  step_ = foresight_.between_steps() ? 0 : foresight_.step();
  if (follows_plan()) use(*net_, {});
}

// The first price of a step is asked for after its first operator has begun.
void PlannedPolicy::begin_step() {
  step_ = foresight_.step();
  const auto outputs = foresight_.last_outputs();
  const bool fits = plan_ && foresight_.matching() &&
                    plan_->fingerprint == foresight_.last_fingerprint() &&
                    (plan_->weights.empty() || plan_->weights.size() == outputs.size());
  if (!fits) {
    if (follows_plan()) use(*net_, {});
    return;
  }
  std::vector<float> weights;
  if (!plan_->weights.empty()) {
    weights.assign(foresight_.last_storages(), 1.0F);
    for (size_t k = 0; k < outputs.size(); ++k) weights[outputs[k].number] = plan_->weights[k];
  }
  if (plan_->policy == "need1") {
    use(*net_, std::move(weights));
    return;
  }
  std::unique_ptr<Policy>& other = others_[fmt::format("{} {}", plan_->policy, plan_->use_share)];
  if (other == nullptr && plan_->policy == "next-use") {
    other = std::make_unique<NextUsePolicy>(store_, foresight_, plan_->use_share);
  } else if (other == nullptr) {
    other = make_policy(plan_->policy, store_);
  }
  use(*other, std::move(weights));
}

void PlannedPolicy::use(Policy& policy, std::vector<float> weights) {
  weights_ = std::move(weights);
  if (active_ == &policy) return;
  active_->forget_all();
  active_ = &policy;
  scale_ = policy.unit() / unit();
  store_.for_each_storage(
      [](Storage& storage) { storage.above_epoch = storage.below_epoch = 0; });
  store_.for_each_value([&](Value& value) {
    if (!value.available() && value.producer != nullptr) policy.availability_changed(value);
  });
}

void PlannedPolicy::check_invariants() {
  TIDEPOOL_CHECK(!follows_plan() || plan_, "invariant 1: %zu weights without a plan",
                 weights_.size());
  active_->check_invariants();
  foresight_.check_invariants();
}

}  // namespace tidepool::remat
