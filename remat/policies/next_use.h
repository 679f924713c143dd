// NextUsePolicy, next-use: the price of a value v is C(v) / sqrt(staleness · time until v is
// needed). C(v) is that of needed-cost. v is needed when an operator reads it next or, earlier,
// when one reads something evicted that has to be recomputed from v. The time is known from a step
// before, as long as this step repeats it (StepHistory). For values of which nothing is foreseen,
// and for all values from the first difference on, the price is needed-cost's. Belady's rule (IBM
// Systems Journal, 1966) would divide by the time alone, which is worse:
// docs/decisions/looking-ahead.md.
// Costs are cached as in CachedPolicy, together with the earliest use of what is evicted below.
// Invariants: (1) that of CachedPolicy; (2) those of StepHistory.
#pragma once

#include "remat/policies/cached_policy.h"
#include "remat/steps/step_history.h"

namespace tidepool::remat {

class NextUsePolicy final : public CachedPolicy {
 public:
  explicit NextUsePolicy(LineageStore& store) : CachedPolicy(store), step_history_(own_) {}
  // With another's history, and C(v) / (staleness^(1 - share) · time^share). `share`: a quarter,
  // a half, three quarters or 1.
  NextUsePolicy(LineageStore& store, StepHistory& step_history, double share)
      : CachedPolicy(store), step_history_(step_history), share_(share) {}

  double price(Storage& storage, const Circumstances& now) override;
  std::optional<double> time_price(uint64_t ns, const Circumstances& now) const override {
    return static_cast<double>(ns) / static_cast<double>(now.staleness_ns);
  }
  StepHistory* step_history() override { return &step_history_; }
  size_t bookkeeping_bytes() const override {
    return CachedPolicy::bookkeeping_bytes() + own_.bookkeeping_bytes();
  }
  void check_invariants() override;

 private:
  uint64_t compute_above(const Storage& storage) override;
  uint64_t compute_below(Storage& storage) override;

  StepHistory own_;
  StepHistory& step_history_;
  const double share_ = 0.5;
};

}  // namespace tidepool::remat
