// CachedPolicy: what the policies that price by exact neighbourhoods have in common: a cost that
// changes only when availability changes in the unavailable region around a storage. It is cached
// per storage, and dropped for exactly the storages at the edge of a region that changes. While
// nothing searches, changes cost nothing: after a while all caches are given up at once.
// A cost is a walk over its region; of a search, those whose region has changed since the last.
// Invariants: (1) a storage whose cost_epoch is the current one caches exactly what a fresh walk
// gives. See docs/life-of-an-eviction.md.
#pragma once

#include <cstdint>

#include "remat/neighbourhood.h"
#include "remat/policy.h"

namespace tidepool::remat {

class CachedPolicy : public Policy {
 public:
  void availability_changed(Value& value) override { drop_around(value); }
  void begin_search() override;
  void check_invariants() override;

 protected:
  explicit CachedPolicy(LineageStore& store, int fraction_bits = kRatioBits)
      : Policy(fraction_bits), store_(store), neighbourhood_(store) {}

  // By a walk from nothing, in ns.
  virtual uint64_t compute(Storage& storage) = 0;

  uint64_t cost(Storage& storage);
  // The region around `value` has changed.
  void drop_around(Value& value);

  LineageStore& store_;
  Neighbourhood neighbourhood_;

 private:
  // Changes between two searches after which caches are given up instead of kept exact.
  static constexpr uint32_t kPatience = 1024;

  uint32_t epoch_ = 1;
  uint32_t changes_ = kPatience;  // since the last search; kPatience: no cache is valid
};

}  // namespace tidepool::remat
