// DtrPolicy, dtr: h_DTR = (c(S) + sum of c(R) over R in e*(S)) / (m(S) · s(S)) (Kirisame et al.,
// ICLR 2021, section 4 and appendix C). e*(S), the exact evicted neighbourhood, is every
// unavailable value that leads to S, or to which S leads, through unavailable values only. Each
// value counts, also several of one record. A value that is dead and evicted counts as long as
// something reads it; then it is forgotten. (The reference simulator counts it for ever; the
// prototype for PyTorch forgets it, too.) Costs are cached; a price takes a walk over e*(S) if that
// has changed since the last search, else O(1).
// Values that count carry Value::component = 1, so that the policy is told of their death.
// Invariants: (1) that of CachedPolicy; (2) every value that counts for some storage is marked.
#pragma once

#include "remat/policies/cached_policy.h"

namespace tidepool::remat {

class DtrPolicy final : public CachedPolicy {
 public:
  explicit DtrPolicy(LineageStore& store) : CachedPolicy(store) {}

  // m(S) divides where h is wanted: see policy.h.
  double price(Storage& storage, const Circumstances& now) override {
    return static_cast<double>(cost(storage)) / static_cast<double>(now.staleness_ns);
  }
  void availability_changed(Value& value) override;
  void value_dies(Value& value) override;
  void forget_all() override;
  void check_invariants() override;

 private:
  uint64_t compute_above(const Storage& storage) override {
    const Value& value = *storage.current;
    return value.producer->cost_ns + neighbourhood_.ancestor_values_ns(value);
  }
  uint64_t compute_below(Storage& storage) override {
    return neighbourhood_.descendant_values_ns(*storage.current);
  }
};

}  // namespace tidepool::remat
