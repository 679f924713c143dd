#include "remat/policies/component_policy.h"

#include "allocator/base/check.h"

namespace tidepool::remat {
namespace {

bool belongs(const Value& value) {
  return !value.has_bytes() && value.producer != nullptr &&
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
  for_each_kin(value,
               [&](const Value& other) { components_.unite(value.component, other.component); });
}

void ComponentPolicy::value_dies(Value& value) {
  components_.remove(value.component);
  value.component = 0;
}

void ComponentPolicy::forget_all() {
  store_.for_each_value([](Value& value) { value.component = 0; });
  components_ = Components();
}

void ComponentPolicy::check_invariants() {
  components_.check_invariants();
  store_.for_each_value([](const Value& value) {
    TIDEPOOL_CHECK(value.component == 0 || belongs(value), "invariant 1: a member that is not one");
    TIDEPOOL_CHECK(!value.live_and_evicted() || value.copied || value.component != 0,
                   "invariant 1: an evicted value is no member");
  });
}

}  // namespace tidepool::remat
