// MspsPolicy, msps: memory saving per second, h_MSPS = (c(S) + sum of c(R) over R in e_R(S)) / m(S)
// (Peng et al., Capuchin, ASPLOS 2020, as in DTR, Kirisame et al. 2021, section 4). e_R(S) are the
// evicted values that S has to be recomputed from. Staleness does not count. Costs are cached; a
// price takes a walk over e_R(S) if that has changed since the last search, else O(1).
#pragma once

#include "remat/policies/cached_policy.h"

namespace tidepool::remat {

class MspsPolicy final : public CachedPolicy {
 public:
  explicit MspsPolicy(LineageStore& store) : CachedPolicy(store, kTimeBits) {}

  // m(S) divides where h is wanted: see policy.h.
  double price(Storage& storage, const Circumstances&) override {
    return static_cast<double>(cost(storage));
  }

 private:
  static constexpr int kTimeBits = 5;  // a price is a time in ns: up to nine minutes

  uint64_t compute_above(const Storage& storage) override {
    const Value& value = *storage.current;
    return value.producer->cost_ns + neighbourhood_.ancestor_values_ns(value);
  }
  uint64_t compute_below(Storage&) override { return 0; }
};

}  // namespace tidepool::remat
