#include "remat/policies/baselines/dtr.h"

#include "allocator/base/check.h"

namespace tidepool::remat {

void DtrPolicy::availability_changed(Value& value) {
  value.component = Neighbourhood::counts(value) ? 1 : 0;
  CachedPolicy::availability_changed(value);
}

void DtrPolicy::value_dies(Value& value) {
  value.component = 0;
  CachedPolicy::value_dies(value);
}

void DtrPolicy::forget_all() {
  store_.for_each_value([](Value& value) { value.component = 0; });
  CachedPolicy::forget_all();
}

void DtrPolicy::check_invariants() {
  CachedPolicy::check_invariants();
  store_.for_each_value([](const Value& value) {
    const bool writing = value.storage != nullptr && value.storage->writing;
    TIDEPOOL_CHECK(writing || value.component != 0 || !Neighbourhood::counts(value),
                   "invariant 2: %zu bytes that count are not marked", value.bytes);
  });
}

}  // namespace tidepool::remat
