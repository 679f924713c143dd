#include "remat/policies/component_policy.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "allocator/check.h"

namespace tidepool::remat {
namespace {

// Calls visit(Value&) for each member of a component next to `value`: inputs and sibling outputs of
// its producer, outputs of its readers.
template <typename Visit>
void for_each_above(const Value& value, bool siblings, Visit&& visit) {
  if (value.producer == nullptr) return;
  const Record& record = *value.producer;
  for (size_t k = 0; k < record.edge_count; ++k) {
    if (record.edges[k].value->component != 0) visit(*record.edges[k].value);
  }
  for (size_t k = 0; siblings && k < record.output_count; ++k) {
    Value* output = record.outputs[k];
    if (output != nullptr && output != &value && output->component != 0) visit(*output);
  }
}

template <typename Visit>
void for_each_below(const Value& value, Visit&& visit) {
  for (const Edge* edge = value.consumers; edge != nullptr; edge = edge->next) {
    for (size_t k = 0; k < edge->record->output_count; ++k) {
      Value* output = edge->record->outputs[k];
      if (output != nullptr && output->component != 0) visit(*output);
    }
  }
}

bool belongs(const Value& value) {
  return !value.available() && value.producer != nullptr &&
         (value.consumers != nullptr || value.storage != nullptr);
}

}  // namespace

void ComponentPolicy::availability_changed(Value& value) {
  if (belongs(value) == (value.component != 0)) return;
  if (value.component != 0) {
    value_dies(value);
    return;
  }
  value.component = components_.add(value.producer->cost_ns);
  auto join = [&](const Value& other) { components_.unite(value.component, other.component); };
  for_each_above(value, true, join);
  for_each_below(value, join);
}

void ComponentPolicy::value_dies(Value& value) {
  components_.remove(value.component);
  value.component = 0;
}

void ComponentPolicy::check_invariants() {
  components_.check_invariants();
  store_.for_each_value([](const Value& value) {
    TIDEPOOL_CHECK(value.component == 0 || belongs(value), "invariant 1: a member that is not one");
    TIDEPOOL_CHECK(!value.live_and_evicted() || value.component != 0,
                   "invariant 1: an evicted value is no member");
  });
}

uint64_t CoopPolicy::projected_cost(Storage& storage) {
  const Value& value = *storage.current;
  uint64_t cost = value.producer->cost_ns;
  for_each_above(value, true, [&](const Value& other) {
    cost += std::max(components_.sum_ns(other.component), components_.own_ns(other.component));
  });
  return cost;
}

uint64_t DtrEqPolicy::projected_cost(Storage& storage) {
  const Value& value = *storage.current;
  absl::InlinedVector<Components::Node, 16> found;
  auto note = [&](const Value& other) { found.push_back(components_.find(other.component)); };
  for_each_above(value, false, note);
  for_each_below(value, note);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  uint64_t cost = value.producer->cost_ns;
  for (const Components::Node node : found) cost += components_.sum_ns(node);
  return cost;
}

}  // namespace tidepool::remat
