// DtrEqPolicy, dtr-eq: h_DTR^eq = (c(S) + sum of c(R) over R in e~*(S)) / (m(S) · s(S)) (Kirisame
// et al., ICLR 2021, section 4 and appendix C). e~*(S), the approximate evicted neighbourhood, is
// the union of the distinct components next to S: those of evicted inputs of S, and of evicted
// results that read S.
// A price takes O(neighbours · α(values)).
#pragma once

#include "absl/container/inlined_vector.h"
#include "remat/policies/component_policy.h"

namespace tidepool::remat {

class DtrEqPolicy final : public ComponentPolicy {
 public:
  explicit DtrEqPolicy(LineageStore& store) : ComponentPolicy(store, Kin::kInputsAndReaders) {}

  // m(S) divides where h is wanted: see policy.h.
  double price(Storage& storage, const Circumstances& now) override;

 private:
  absl::InlinedVector<Components::Node, 16> found_;  // scratch of price()
};

}  // namespace tidepool::remat
