// CachedPolicy: what the policies that price by exact neighbourhoods have in common: a cost in two
// parts, each of which changes only when availability changes in an unavailable region that touches
// the storage: of what lies above it, and of what lies below. Both are cached per storage. Values
// whose availability changes are listed, and the next price asked for drops, in one walk over their
// regions together, the parts below of the storages above them and the parts above of those below.
// While nothing searches, changes cost next to nothing: after a while all caches are given up.
// A cost is a walk over its region; of a search, those whose region has changed since the last.
// Invariants: (1) a part whose epoch is the current one is exactly what a fresh walk gives, but for
// changes still listed; (2) Value::changed is the place in the list of exactly the values in it.
// Why one walk later does: between a storage and the first value on any path from it that has
// changed, nothing has, so that a walk from there still gets to the storage. A listed value that
// dies is walked from at once, while its edges are there. See docs/life-of-an-eviction.md.
#pragma once

#include <cstdint>
#include <vector>

#include "remat/lineage/neighbourhood.h"
#include "remat/policies/policy.h"

namespace tidepool::remat {

class CachedPolicy : public Policy {
 public:
  void availability_changed(Value& value) override { note_change(value); }
  void value_dies(Value& value) override;
  void forget_all() override { give_up(); }
  size_t bookkeeping_bytes() const override {
    return bytes_of(changed_) + neighbourhood_.bookkeeping_bytes();
  }
  void check_invariants() override;

 protected:
  explicit CachedPolicy(LineageStore& store, int fraction_bits = kRatioBits)
      : Policy(fraction_bits), store_(store), neighbourhood_(store) {}

  // By walks from nothing, in ns: of what lies above the storage, its own record's cost included,
  // and below.
  virtual uint64_t compute_above(const Storage& storage) = 0;
  virtual uint64_t compute_below(Storage& storage) = 0;

  uint64_t cost(Storage& storage) {
    if (!changed_.empty()) drop_changed();
    if (storage.above_epoch != epoch_ || storage.below_epoch != epoch_) refresh(storage);
    return storage.cost_above + storage.cost_below;
  }

  LineageStore& store_;
  Neighbourhood neighbourhood_;

 private:
  // Values that change between two searches after which caches are given up, not kept exact.
  static constexpr size_t kPatience = 1024;

  void note_change(Value& value) {
    if (!any_cached_ || value.changed != 0) return;
    changed_.push_back(&value);
    value.changed = static_cast<uint32_t>(changed_.size());
    if (changed_.size() == kPatience) give_up();
  }
  void refresh(Storage& storage);
  void drop_changed();
  void give_up();

  uint32_t epoch_ = 1;
  bool any_cached_ = false;
  std::vector<Value*> changed_;
};

}  // namespace tidepool::remat
