#include "remat/policies/cached_policy.h"

#include <cinttypes>

#include "allocator/base/check.h"

namespace tidepool::remat {

void CachedPolicy::refresh(Storage& storage) {
  if (storage.above_generation != generation_) {
    storage.cost_above = compute_above(storage);
    storage.above_generation = generation_;
  }
  if (storage.below_generation != generation_) {
    storage.cost_below = compute_below(storage);
    storage.below_generation = generation_;
  }
  any_cached_ = true;
}

void CachedPolicy::drop_changed() {
  for (Value* value : changed_) {
    value->changed_slot = 0;
    if (value->storage != nullptr)
      value->storage->above_generation = value->storage->below_generation = 0;
  }
  neighbourhood_.for_each_frontier(
      changed_, [](Storage& above) { above.below_generation = 0; },
      [](Storage& below) { below.above_generation = 0; });
  changed_.clear();
}

void CachedPolicy::give_up() {
  for (Value* value : changed_) value->changed_slot = 0;
  changed_.clear();
  any_cached_ = false;
  ++generation_;
}

void CachedPolicy::value_dies(Value& value) {
  if (value.changed_slot != 0) {
    changed_.back()->changed_slot = value.changed_slot;
    changed_[value.changed_slot - 1] = changed_.back();
    changed_.pop_back();
    value.changed_slot = 0;
  }
  if (!any_cached_) return;
  Value* dying = &value;
  neighbourhood_.for_each_frontier(
      {&dying, 1}, [](Storage& above) { above.below_generation = 0; },
      [](Storage& below) { below.above_generation = 0; });
}

void CachedPolicy::check_invariants() {
  for (size_t k = 0; k < changed_.size(); ++k) {
    TIDEPOOL_CHECK(changed_[k]->changed_slot == k + 1, "invariant 2: %u at %zu",
                   changed_[k]->changed_slot, k);
  }
  size_t listed = 0;
  store_.for_each_value([&](const Value& value) { listed += value.changed_slot != 0; });
  TIDEPOOL_CHECK(listed == changed_.size(), "invariant 2: %zu marked, %zu listed", listed,
                 changed_.size());
  drop_changed();
  store_.for_each_storage([this](Storage& storage) {
    if (storage.evicted || storage.current == nullptr) return;
    if (storage.current->producer == nullptr) return;
    if (storage.above_generation == generation_) {
      const uint64_t exact = compute_above(storage);
      TIDEPOOL_CHECK(storage.cost_above == exact,
                     "invariant 1: cached cost above %" PRIu64 ", by a fresh walk %" PRIu64,
                     storage.cost_above, exact);
    }
    if (storage.below_generation == generation_) {
      const uint64_t exact = compute_below(storage);
      TIDEPOOL_CHECK(storage.cost_below == exact,
                     "invariant 1: cached cost below %" PRIu64 ", by a fresh walk %" PRIu64,
                     storage.cost_below, exact);
    }
  });
}

}  // namespace tidepool::remat
