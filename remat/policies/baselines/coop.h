// CoopPolicy, coop: h = c(S) / s(S). c(S) is the own cost, and for each evicted input and evicted
// sibling output of the producer the greater of its component's sum and its own cost; what counts
// twice is not left out. Readers do not count, nor do they join components (Zhang et al., NeurIPS
// 2023, section 3, and the authors' source). The allocator sums h over a window and takes the
// window with the least sum, so that h does not need the size. A price takes O(inputs and siblings
// · α(values)).
// Coop's other parts are the simulator's: remat/simulate/memory/comparison_strategy.h keeps what is
// cheap apart, and SimulatedJob may leave out that in-place writes can be recomputed.
#pragma once

#include <algorithm>

#include "remat/policies/component_policy.h"

namespace tidepool::remat {

class CoopPolicy : public ComponentPolicy {
 public:
  explicit CoopPolicy(LineageStore& store) : ComponentPolicy(store, Kin::kInputsAndSiblings) {}

  double price(Storage& storage, const Circumstances& now) override {
    return static_cast<double>(cost(storage)) / static_cast<double>(now.staleness_ns);
  }

 protected:
  uint64_t cost(const Storage& storage) {
    uint64_t sum = storage.current->producer->cost_ns;
    for_each_kin(*storage.current, [&](const Value& other) {
      sum += std::max(components_.sum_ns(other.component), components_.own_ns(other.component));
    });
    return sum;
  }
};

}  // namespace tidepool::remat
