// DtePolicy, dte: h = c(S) / ((m(S) + f(S)) · s(S)). This is DTR's h with the free bytes f(S) on
// both sides of the block credited to it (MegTaiChi, Hu et al., ICS 2022, in the form in which
// Coop, Zhang et al. 2023, section 4, compares with it under this name). c(S) is coop's.
// MegEngine's own source leaves the own cost out of c(S), and multiplies h by 1.0001 to the number
// of recomputations; this does not.
// A price takes O(inputs and siblings · α(values)).
#pragma once

#include "remat/policies/baselines/coop.h"

namespace tidepool::remat {

class DtePolicy final : public CoopPolicy {
 public:
  using CoopPolicy::CoopPolicy;

  bool asks_for_free_beside() const override { return true; }

  // m(S) divides where h is wanted: see policy.h.
  double price(Storage& storage, const Circumstances& now) override {
    const auto bytes = static_cast<double>(storage.current->bytes);
    const double share = bytes / (bytes + static_cast<double>(now.free_beside_bytes));
    return CoopPolicy::price(storage, now) * share;
  }
};

}  // namespace tidepool::remat
