// DtrLocalPolicy, dtr-local: h_DTR^local = c(S) / (m(S) · s(S)) (Kirisame et al., ICLR 2021,
// section 4): only the own cost counts. A price takes O(1).
#pragma once

#include "remat/policies/policy.h"

namespace tidepool::remat {

class DtrLocalPolicy final : public Policy {
 public:
  // m(S) divides where h is wanted: see policy.h.
  double price(Storage& storage, const Circumstances& now) override {
    return static_cast<double>(storage.current->producer->cost_ns) /
           static_cast<double>(now.staleness_ns);
  }
};

}  // namespace tidepool::remat
