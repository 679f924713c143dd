// PlannedPolicy, planned: the prices of a plan that was found on a recorded step, for as long as
// the job repeats that step; the prices of needed-cost before there is a plan, and from the first
// difference on.
// A plan names another policy, and a factor for each of the step's results (step_plan.h). Where it
// says what is dropped between which uses, prices of that are far below, and all others far above,
// those without a plan; what was dropped and restored may be of the others. Each kind of step that
// the job has may have a plan of its own; remat/plan/search/planner.h searches for them.
// Owns the policies that it has priced with. One of them is active, and only that one keeps
// anything in values and storages: what the others kept there is dropped as soon as another one
// becomes active.
// Invariants: (1) another policy than needed-cost is active, or gaps decide, only while the step is
// foreseen and the plan fits it; (2) those of the active policy; (3) those of StepHistory.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "remat/policies/next_use.h"
#include "remat/policies/policy.h"
#include "remat/steps/plan_inbox.h"
#include "remat/steps/step_history.h"
#include "remat/steps/step_plan.h"

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
  void post_plan(StepPlan plan) override { inbox_.put(std::move(plan)); }
  // Whether a plan is in use now.
  bool follows_plan() const override {
    return active_ != &*net_ || copies_ != CopyPrices{} || !weights_.empty() ||
           preference_ != Preference::kCheapest || gaps_.has_value();
  }

  double price(Storage& storage, const Circumstances& now) override {
    update();
    double price = active_->price(storage, now) * scale_;
    if (storage.step_seen != step_history_.step()) return price;
    if (!weights_.empty()) price *= weights_[storage.step_number];
    return gaps_ ? price * gap_factor(storage) : price;
  }
  // The price of time in needed-cost's unit, which price() has, too.
  std::optional<double> time_price(uint64_t ns, const Circumstances& now) const override {
    return net_->time_price(ns, now);
  }
  std::optional<double> copy_price(const Storage& storage, uint64_t ns, uint64_t until_use_ns,
                                   const Circumstances& now) const override;
  // Where gaps decide, a price may be the least as soon as a use is over.
  bool allows_shortlists() const override { return !gaps_; }
  Preference preference() const override {
    return step_history_.matching() ? preference_ : Preference::kCheapest;
  }
  void availability_changed(Value& value) override {
    if (gaps_) [[unlikely]]
      note_change(value);
    active_->availability_changed(value);
  }
  void value_dies(Value& value) override { active_->value_dies(value); }
  void begin_search() override {
    if (const auto plan = inbox_.take()) [[unlikely]]
      keep(*plan), expectation_ = 0;
    update();
    active_->begin_search();
  }
  void forget_all() override { active_->forget_all(); }
  StepHistory* step_history() override { return &step_history_; }
  size_t bookkeeping_bytes() const override;
  void check_invariants() override;

 private:
  // How many of the latest plans are remembered. Sizes that come again after many others have
  // plans, too.
  static constexpr size_t kMostPlans = 8 * StepHistory::kKinds;

  // Staleness spans five orders of magnitude within a step.
  static constexpr double kKeptFactor = 1024;

  // Takes up, or drops, a plan where another step is expected than before.
  void update() {
    if (step_history_.expectation() != expectation_) choose_plan();
    if (follows_plan() && !step_history_.matching()) [[unlikely]]
      use(*net_, {});
  }
  void keep(const StepPlan& plan);
  void choose_plan();
  // What becomes of a storage in one gap between two of its uses.
  enum class Gap : uint8_t { kKept, kDropped, kDroppedOnce, kDroppedAfter };
  // The gaps of the expected step's storages. Those of storage n begin at index first[n]; each use
  // that an operator has of it is followed by one.
  struct Gaps {
    std::vector<uint32_t> first;
    std::vector<Gap> kinds;
    // What has happened in the gap: for kDroppedOnce, that it was evicted; for kDroppedAfter, that
    // the other storage has been restored.
    std::vector<bool> happened;
    // By the number of a storage that is awaited: the storages that leave then, and in which gap.
    std::multimap<uint32_t, std::pair<uint32_t, uint32_t>> awaited;
  };
  Gaps gaps_of(std::span<const DroppedGap> dropped) const;
  size_t gap_of(const Storage& storage) {
    return gaps_->first[storage.step_number] + step_history_.uses_begun(storage);
  }
  double gap_factor(const Storage& storage) {
    const size_t at = gap_of(storage);
    const Gap kind = gaps_->kinds[at];
    const bool kept = kind == Gap::kKept || (kind == Gap::kDroppedOnce && gaps_->happened[at]) ||
                      (kind == Gap::kDroppedAfter && !gaps_->happened[at]);
    return kept ? kKeptFactor : 1 / kKeptFactor;
  }
  void note_change(const Value& value);
  const StepPlan* plan_for_step() const;
  // Makes `policy` the active one. `weights`: factors by the numbers of the step's storages.
  void use(Policy& policy, std::vector<float> weights,
           Preference preference = Preference::kCheapest, const CopyPrices& copies = {},
           std::optional<Gaps> gaps = {});

  LineageStore& store_;
  const Make make_;
  StepHistory step_history_;
  const std::unique_ptr<Policy> net_;
  std::map<std::string, std::unique_ptr<Policy>> others_;  // by name and share
  Policy* active_;
  double scale_ = 1;  // from the active policy's unit to needed-cost's
  CopyPrices copies_;
  std::vector<float> weights_;
  Preference preference_ = Preference::kCheapest;
  std::optional<Gaps> gaps_;
  std::deque<StepPlan> plans_;
  PlanInbox inbox_;
  uint32_t expectation_ = 0;  // the one that choose_plan() has seen
};

}  // namespace tidepool::remat
