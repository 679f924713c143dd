// CachedPolicy: the base of policies that price by exact neighbourhoods. The cost of a storage has
// two parts, that of what lies above it and that of what lies below. Each part changes only when
// the availability of values changes in an unavailable region that touches the storage, and each is
// cached in the storage. A cost that is not cached takes a walk over its region, so that a search
// walks only where something has changed since the last one. Values whose availability changes are
// listed. The next price that is asked for drops caches in one walk over the regions of all listed
// values: the parts below of storages above them, and the parts above of storages below them. While
// nothing searches, changes cost next to nothing, because after many of them all caches are given
// up.
// Invariants: (1) a part whose generation is the current one is exactly what a fresh walk gives,
// apart from changes that are still listed; (2) Value::changed_slot is the place in the list of
// each value in it, and 0 for all others. One walk later is enough: between a storage and the first
// changed value on any path from it nothing has changed, so that a walk from that value still gets
// to the storage. If a listed value dies, the walk from it is made at once, while its edges are
// there. See docs/life-of-an-eviction.md.
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

  // The two parts of the cost in ns, computed anew: of what lies above the storage, its own record
  // included, and of what lies below it.
  virtual uint64_t compute_above(const Storage& storage) = 0;
  virtual uint64_t compute_below(Storage& storage) = 0;

  uint64_t cost(Storage& storage) {
    if (!changed_.empty()) drop_changed();
    if (storage.above_generation != generation_ || storage.below_generation != generation_)
      refresh(storage);
    return storage.cost_above + storage.cost_below;
  }

  LineageStore& store_;
  Neighbourhood neighbourhood_;

 private:
  // After so many changes between two searches caches are given up, not kept exact.
  static constexpr size_t kPatience = 1024;

  void note_change(Value& value) {
    if (!any_cached_ || value.changed_slot != 0) return;
    changed_.push_back(&value);
    value.changed_slot = static_cast<uint32_t>(changed_.size());
    if (changed_.size() == kPatience) give_up();
  }
  void refresh(Storage& storage);
  void drop_changed();
  void give_up();

  uint32_t generation_ = 1;
  bool any_cached_ = false;
  std::vector<Value*> changed_;
};

}  // namespace tidepool::remat
