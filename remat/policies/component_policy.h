// ComponentPolicy: what the policies that price by union-find components have in common: every
// value that would have to be recomputed is a member of a component, joined to its evicted inputs,
// sibling outputs and readers.
// Invariants: (1) exactly the unavailable values with a producer that have a storage or readers are
// members; (2) those of Components.
#pragma once

#include <cstdint>

#include "remat/components.h"
#include "remat/policy.h"

namespace tidepool::remat {

class ComponentPolicy : public Policy {
 public:
  explicit ComponentPolicy(LineageStore& store) : store_(store) {}
  void availability_changed(Value& value) override;
  void value_dies(Value& value) override;
  void check_invariants() override;

 protected:
  Components components_;

 private:
  LineageStore& store_;
};

// Coop (Zhang et al., NeurIPS 2023, section 3): own cost + for each evicted input and sibling
// output of the producer the greater of its component's sum and its own cost, without regard to
// doubles. Readers do not count. The allocator sums cost / staleness over a window.
class CoopPolicy final : public ComponentPolicy {
 public:
  using ComponentPolicy::ComponentPolicy;
  uint64_t projected_cost(Storage& storage) override;
};

// h_DTR^eq (Kirisame et al. 2021, section 4): own cost + the sums of the distinct components of
// evicted inputs and readers' outputs. DTR also divides by the size; here the allocator weighs
// bytes.
class DtrEqPolicy final : public ComponentPolicy {
 public:
  using ComponentPolicy::ComponentPolicy;
  uint64_t projected_cost(Storage& storage) override;
};

}  // namespace tidepool::remat
