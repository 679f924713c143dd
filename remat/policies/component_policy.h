// ComponentPolicy: the base of policies that price by components of a union-find. Every value that
// would have to be recomputed is a member of a component. It is joined to its evicted inputs and,
// as the policy's paper says, to evicted results that read it or to evicted outputs of the same
// record. A change takes O(neighbours · α(values)), and so does a price.
// Invariants: (1) exactly the unavailable values with a producer that have a storage or readers are
// members; (2) those of Components.
#pragma once

#include <cstdint>

#include "remat/lineage/components.h"
#include "remat/policies/policy.h"

namespace tidepool::remat {

class ComponentPolicy : public Policy {
 public:
  void availability_changed(Value& value) override;
  void value_dies(Value& value) override;
  void forget_all() override;
  size_t bookkeeping_bytes() const override { return components_.bookkeeping_bytes(); }
  void check_invariants() override;

 protected:
  enum class Kin : uint8_t { kInputsAndReaders, kInputsAndSiblings };
  ComponentPolicy(LineageStore& store, Kin kin) : store_(store), kin_(kin) {}

  // Calls visit(Value&) for each member among a value's kin (see Kin); twice for an input that is
  // read twice.
  template <typename Visit>
  void for_each_kin(const Value& value, Visit&& visit) const {
    if (value.producer == nullptr) return;
    const Record& record = *value.producer;
    for (size_t k = 0; k < record.edge_count; ++k) {
      if (record.edges[k].value->component != 0) visit(*record.edges[k].value);
    }
    if (kin_ == Kin::kInputsAndSiblings) {
      for (size_t k = 0; k < record.output_count; ++k) {
        Value* output = record.outputs[k];
        if (output != nullptr && output != &value && output->component != 0) visit(*output);
      }
      return;
    }
    for (const Edge* edge = value.consumers; edge != nullptr; edge = edge->next) {
      for (size_t k = 0; k < edge->record->output_count; ++k) {
        Value* output = edge->record->outputs[k];
        if (output != nullptr && output->component != 0) visit(*output);
      }
    }
  }

  Components components_;

 private:
  LineageStore& store_;
  const Kin kin_;
};

}  // namespace tidepool::remat
