#include "remat/policies/planned.h"

#include <algorithm>
#include <cmath>
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
  keep(plan);
  // A step under way that the plan is for goes on without a plan.
  if (plan.fingerprint != step_history_.expected_fingerprint()) return;
  expectation_ = step_history_.between_steps() ? 0 : step_history_.expectation();
  if (follows_plan()) use(*net_, {});
}

void PlannedPolicy::keep(const StepPlan& plan) {
  std::erase_if(plans_,
                [&](const StepPlan& other) { return other.fingerprint == plan.fingerprint; });
  if (plans_.size() == kMostPlans) plans_.pop_front();
  plans_.push_back(plan);
}

const StepPlan* PlannedPolicy::plan_for_step() const {
  if (!step_history_.matching()) return nullptr;
  for (const StepPlan& plan : plans_) {
    if (plan.fingerprint != step_history_.expected_fingerprint()) continue;
    const size_t outputs = step_history_.expected_outputs().size();
    if (!plan.weights.empty() && plan.weights.size() != outputs) return nullptr;
    const bool fits =
        !plan.gaps || std::all_of(plan.gaps->begin(), plan.gaps->end(), [&](const auto& gap) {
          return gap.output < outputs && gap.after.value_or(0) < outputs;
        });
    return fits ? &plan : nullptr;
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
  std::optional<Gaps> gaps;
  if (plan->gaps) gaps = gaps_of(*plan->gaps);
  if (plan->policy == "needed-cost") {
    use(*net_, std::move(weights), plan->preference, plan->copies, std::move(gaps));
    return;
  }
  std::unique_ptr<Policy>& other = others_[fmt::format("{} {}", plan->policy, plan->use_share)];
  if (other == nullptr && plan->policy == "next-use") {
    other = std::make_unique<NextUsePolicy>(store_, step_history_, plan->use_share);
  } else if (other == nullptr) {
    other = make_(plan->policy, store_, 0);
  }
  use(*other, std::move(weights), plan->preference, plan->copies, std::move(gaps));
}

PlannedPolicy::Gaps PlannedPolicy::gaps_of(std::span<const DroppedGap> dropped) const {
  Gaps gaps;
  const uint32_t storages = step_history_.expected_storages();
  for (uint32_t n = 0; n < storages; ++n) {
    gaps.first.push_back(static_cast<uint32_t>(gaps.kinds.size()));
    gaps.kinds.resize(gaps.kinds.size() + step_history_.uses(n).size() + 1, Gap::kKept);
  }
  gaps.happened.resize(gaps.kinds.size());
  const auto outputs = step_history_.expected_outputs();
  for (const DroppedGap& each : dropped) {
    const uint32_t storage = outputs[each.output].number;
    const auto uses = step_history_.uses(storage);
    uint32_t gap = 0;
    for (size_t k = 0; k <= uses.size(); ++k) {
      if (k > 0 && k < uses.size() && uses[k] == uses[k - 1]) continue;  // of the same operator
      if (gap++ != each.gap) continue;
      const auto at = static_cast<uint32_t>(gaps.first[storage] + k);
      gaps.kinds[at] = each.stays ? Gap::kDroppedOnce : Gap::kDropped;
      if (!each.after) continue;
      gaps.kinds[at] = Gap::kDroppedAfter;
      gaps.awaited.emplace(outputs[*each.after].number, std::pair(storage, at));
    }
  }
  return gaps;
}

// A storage was evicted or restored.
void PlannedPolicy::note_change(const Value& value) {
  const Storage* const storage = value.storage;
  if (storage == nullptr || !step_history_.matching()) return;
  if (storage->step_seen != step_history_.step()) return;
  if (step_history_.expectation() != expectation_) return;
  const size_t now = gap_of(*storage);
  if (storage->evicted) {
    gaps_->happened[now] = gaps_->happened[now] || gaps_->kinds[now] == Gap::kDroppedOnce;
    return;
  }
  const auto [begin, end] = gaps_->awaited.equal_range(storage->step_number);
  for (auto each = begin; each != end; ++each) {
    const auto [waiting, at] = each->second;
    const size_t gap = at - gaps_->first[waiting];
    const auto uses = step_history_.uses(waiting);
    const StepHistory::Position position = step_history_.position();
    const bool begun = gap == 0 || uses[gap - 1] < position;
    const bool over = gap < uses.size() && uses[gap] < position;
    if (begun && !over) gaps_->happened[at] = true;
  }
}

std::optional<double> PlannedPolicy::copy_price(const Storage& storage, uint64_t ns,
                                                uint64_t until_use_ns,
                                                const Circumstances& now) const {
  const bool is_root = storage.current->producer == nullptr;
  const double factor = is_root ? copies_.root_factor : copies_.factor;
  if (copies_.use_share == 0 || until_use_ns == 0) return factor * *time_price(ns, now);
  const auto staleness = static_cast<double>(now.staleness_ns);
  const auto until_use = static_cast<double>(until_use_ns);
  Circumstances between = now;
  between.staleness_ns =
      static_cast<uint64_t>(staleness * std::pow(until_use / staleness, copies_.use_share)) + 1;
  return factor * *time_price(ns, between);
}

void PlannedPolicy::use(Policy& policy, std::vector<float> weights, Preference preference,
                        const CopyPrices& copies, std::optional<Gaps> gaps) {
  copies_ = copies;
  weights_ = std::move(weights);
  preference_ = preference;
  gaps_ = std::move(gaps);
  if (active_ == &policy) return;
  active_->forget_all();
  active_ = &policy;
  scale_ = policy.unit() / unit();
  store_.for_each_storage(
      [](Storage& storage) { storage.above_generation = storage.below_generation = 0; });
  store_.for_each_value([&](Value& value) {
    if (!value.has_bytes() && value.producer != nullptr) policy.availability_changed(value);
  });
}

size_t PlannedPolicy::bookkeeping_bytes() const {
  size_t bytes = step_history_.bookkeeping_bytes() + net_->bookkeeping_bytes() + bytes_of(weights_);
  for (const auto& [name, policy] : others_) bytes += policy->bookkeeping_bytes();
  for (const StepPlan& plan : plans_) {
    bytes += bytes_of(plan.weights) + (plan.gaps ? bytes_of(*plan.gaps) : 0);
  }
  if (gaps_) {
    bytes += bytes_of(gaps_->first) + bytes_of(gaps_->kinds) + gaps_->happened.size() / 8;
    constexpr size_t kNode = 4 * sizeof(void*) + sizeof(*gaps_->awaited.begin());
    bytes += gaps_->awaited.size() * kNode;
  }
  return bytes;
}

void PlannedPolicy::check_invariants() {
  TIDEPOOL_CHECK(!follows_plan() || !plans_.empty(), "invariant 1: %zu weights without a plan",
                 weights_.size());
  active_->check_invariants();
  step_history_.check_invariants();
}

}  // namespace tidepool::remat
