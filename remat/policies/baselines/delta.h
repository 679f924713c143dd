// DeltaPolicy, delta: h = 1 / (m(S) · s(S)), whatever S costs (DELTA, Tang et al., 2022, its
// filter, as in the authors' source). Its director says then how S leaves: by a copy, if that takes
// no longer, out and back, than the operator that made S; else it is forgotten. What has been
// evicted around S does not count. A price takes O(1). Three things are not as in the authors'
// source, where they are taken for mistakes: both times are in one unit, a copy takes what the tier
// says, not what a bus of 11 GiB/s would, and room is made before the operator runs. Contents
// without a producer, which never leave there, leave last.
#pragma once

#include "remat/policies/policy.h"

namespace tidepool::remat {

class DeltaPolicy final : public Policy {
 public:
  DeltaPolicy() : Policy(kRateBits) {}

  // m(S) divides where h is wanted: see policy.h.
  double price(Storage&, const Circumstances& now) override {
    return 1 / static_cast<double>(now.staleness_ns);
  }

  std::optional<bool> prefers_copy(uint64_t copy_ns, uint64_t cost_ns) const override {
    return copy_ns <= cost_ns;
  }

 private:
  static constexpr int kRateBits = 43;  // storages per ns: from one in two hours on
};

}  // namespace tidepool::remat
