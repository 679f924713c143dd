#include "remat/policies/cached_policy.h"

#include <cinttypes>

#include "allocator/check.h"

namespace tidepool::remat {

uint64_t CachedPolicy::cost(Storage& storage) {
  if (storage.cost_epoch == epoch_) return storage.cost_cached;
  storage.cost_cached = compute(storage);
  storage.cost_epoch = epoch_;
  if (changes_ == kPatience) changes_ = 0;  // a cache is valid from now on
  return storage.cost_cached;
}

void CachedPolicy::drop_around(Value& value) {
  if (changes_ == kPatience) return;
  if (++changes_ == kPatience) {
    ++epoch_;
    return;
  }
  if (value.storage != nullptr) value.storage->cost_epoch = 0;
  neighbourhood_.for_each_frontier(value, [](Storage& storage) { storage.cost_epoch = 0; });
}

void CachedPolicy::begin_search() {
  if (changes_ < kPatience) changes_ = 0;
}

void CachedPolicy::check_invariants() {
  store_.for_each_storage([this](Storage& storage) {
    if (storage.cost_epoch != epoch_ || storage.evicted || storage.current == nullptr) return;
    if (storage.current->producer == nullptr) return;
    const uint64_t exact = compute(storage);
    TIDEPOOL_CHECK(storage.cost_cached == exact,
                   "invariant 1: cached cost %" PRIu64 ", by a fresh walk %" PRIu64,
                   storage.cost_cached, exact);
  });
}

}  // namespace tidepool::remat
