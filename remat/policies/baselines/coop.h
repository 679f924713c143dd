// coop: h = c(S) / s(S), where c(S) is the own cost + for each evicted input and sibling output of
// the producer the greater of its component's sum and its own cost, without regard to doubles;
// readers do not count, nor do they join components (Zhang et al., NeurIPS 2023, section 3, and
// the authors' source). The allocator sums it over a window and takes the least sum.
// No size: the window sees to it. O(inputs and siblings · α(values)).
// Coop's other parts have switches of their own: AllocatorConfig::evict_singly is without windows,
// RuntimeConfig::record_in_place says whether in-place writes can be recomputed, and who allocates
// says with coop_placement() what is cheap, or leaves partitioning out.
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
