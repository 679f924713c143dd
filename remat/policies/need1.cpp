#include "remat/policies/need1.h"

#include <cinttypes>

#include "allocator/check.h"

namespace tidepool::remat {

uint64_t Need1Policy::compute(const Storage& storage) {
  const Value& value = *storage.current;
  return value.producer->cost_ns + neighbourhood_.ancestors_ns(value) +
         neighbourhood_.needed_descendants_ns(value);
}

uint64_t Need1Policy::projected_cost(Storage& storage) {
  if (storage.cost_epoch == epoch_) return storage.cost_cached;
  storage.cost_cached = compute(storage);
  storage.cost_epoch = epoch_;
  if (changes_ == kPatience) changes_ = 0;  // a cache is valid from now on
  return storage.cost_cached;
}

void Need1Policy::availability_changed(Value& value) {
  if (changes_ == kPatience) return;
  if (++changes_ == kPatience) {
    ++epoch_;
    return;
  }
  if (value.storage != nullptr) value.storage->cost_epoch = 0;
  neighbourhood_.for_each_frontier(value, [](Storage& storage) { storage.cost_epoch = 0; });
}

void Need1Policy::begin_search() {
  if (changes_ < kPatience) changes_ = 0;
}

void Need1Policy::check_invariants() {
  store_.for_each_storage([this](const Storage& storage) {
    if (storage.cost_epoch != epoch_ || storage.evicted || storage.current == nullptr) return;
    if (storage.current->producer == nullptr) return;
    const uint64_t exact = compute(storage);
    TIDEPOOL_CHECK(storage.cost_cached == exact,
                   "invariant 1: cached cost %" PRIu64 ", by a fresh walk %" PRIu64,
                   storage.cost_cached, exact);
  });
}

}  // namespace tidepool::remat
