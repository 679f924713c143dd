// PlannedPolicy, planned: the prices of a plan that was found on a recorded step, for as long as
// the job repeats that step; the prices of needed-cost before there is a plan, and from the first
// difference on.
// A plan names another policy, and a factor for each of the step's results (step_plan.h). Each kind
// of step that the job has may have a plan of its own; plan/planner.h searches for them.
// Owns the policies that it has priced with. One of them is active, and only that one keeps
// anything in values and storages: what the others kept there is dropped as soon as another one
// becomes active.
// Invariants: (1) another policy than needed-cost is active only while the step is foreseen and the
// plan fits it; (2) those of the active policy; (3) those of StepHistory.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "remat/policies/next_use.h"
#include "remat/policies/policy.h"
#include "remat/policies/step_history.h"
#include "remat/policies/step_plan.h"

namespace tidepool::remat {

class PlannedPolicy final : public Policy {
 public:
  // Makes the policy of a name, as make_policy() of the table of policies does.
  using Make = std::unique_ptr<Policy> (*)(const std::string& name, LineageStore& store,
                                           uint64_t seed);

  PlannedPolicy(LineageStore& store, Make make);

  // The policies that a plan may name: those whose prices depend only on the storage, its
  // neighbourhood and time.
  static std::span<const std::string> candidates();

  // Gives a plan, which the next step that it fits takes up, in place of an earlier plan for such
  // steps. A default plan with the step's fingerprint stands for none. Throws:
  // std::invalid_argument naming an unknown policy.
  void set_plan(const StepPlan& plan) override;
  // Whether a plan is in use now.
  bool follows_plan() const {
    return active_ != &*net_ || !weights_.empty() || preference_ != Preference::kCheapest;
  }

  double price(Storage& storage, const Circumstances& now) override {
    update();
    const double price = active_->price(storage, now) * scale_;
    if (weights_.empty() || storage.step_seen != step_history_.step()) return price;
    return price * weights_[storage.step_number];
  }
  // The price of time in needed-cost's unit, which price() has, too.
  std::optional<double> time_price(uint64_t ns, const Circumstances& now) const override {
    return net_->time_price(ns, now);
  }
  bool allows_shortlists() const override { return true; }
  Preference preference() const override {
    return step_history_.matching() ? preference_ : Preference::kCheapest;
  }
  void availability_changed(Value& value) override { active_->availability_changed(value); }
  void value_dies(Value& value) override { active_->value_dies(value); }
  void begin_search() override {
    update();
    active_->begin_search();
  }
  void forget_all() override { active_->forget_all(); }
  StepHistory* step_history() override { return &step_history_; }
  size_t bookkeeping_bytes() const override;
  void check_invariants() override;

 private:
  // How many of the latest plans are remembered: more than there are kinds of steps.
  static constexpr size_t kMostPlans = 2 * StepHistory::kKinds;

  // Takes up, or drops, a plan where another step is expected than before.
  void update() {
    if (step_history_.expectation() != expectation_) choose_plan();
    if (follows_plan() && !step_history_.matching()) [[unlikely]]
      use(*net_, {});
  }
  void choose_plan();
  const StepPlan* plan_for_step() const;
  // Makes `policy` the active one. `weights`: factors by the numbers of the step's storages.
  void use(Policy& policy, std::vector<float> weights,
           Preference preference = Preference::kCheapest);

  LineageStore& store_;
  const Make make_;
  StepHistory step_history_;
  const std::unique_ptr<Policy> net_;
  std::map<std::string, std::unique_ptr<Policy>> others_;  // by name and share
  Policy* active_;
  double scale_ = 1;  // from the active policy's unit to needed-cost's
  std::vector<float> weights_;
  Preference preference_ = Preference::kCheapest;
  std::deque<StepPlan> plans_;
  uint32_t expectation_ = 0;  // the one that choose_plan() has seen
};

}  // namespace tidepool::remat
