// NeededCostPolicy, needed-cost: the price of a value v is C(v) / staleness. C(v) is v's own cost,
// that of the evicted values that v is computed from, and that of the evicted values computed from
// v that are still needed: they are live, or lead through evicted values to a live evicted value.
// Each record counts once. This policy is our own. It differs from h_DTR (baselines/dtr.h) in what
// it leaves out: descendants that nobody will ask for, and second outputs of one record. A price
// takes O(region) where the evicted region around v has changed since the last search, else O(1).
#pragma once

#include "remat/policies/cached_policy.h"

namespace tidepool::remat {

class NeededCostPolicy final : public CachedPolicy {
 public:
  explicit NeededCostPolicy(LineageStore& store) : CachedPolicy(store) {}

  double price(Storage& storage, const Circumstances& now) override {
    return static_cast<double>(cost(storage)) / static_cast<double>(now.staleness_ns);
  }

  bool allows_shortlists() const override { return true; }

  std::optional<double> time_price(uint64_t ns, const Circumstances& now) const override {
    return static_cast<double>(ns) / static_cast<double>(now.staleness_ns);
  }

 private:
  uint64_t compute_above(const Storage& storage) override {
    const Value& value = *storage.current;
    return value.producer->cost_ns + neighbourhood_.ancestors_ns(value);
  }
  uint64_t compute_below(Storage& storage) override {
    return neighbourhood_.needed_descendants_ns(*storage.current);
  }
};

}  // namespace tidepool::remat
