// need1: C(v) / staleness, where C(v) = own cost + evicted ancestors' + evicted descendants' that
// are live or lead, through evicted values, to a live evicted value (each record once). The values
// are exact; they are cached per storage and dropped region by region when availability changes.
// While nothing searches, changes cost nothing: after a while all caches are given up at once.
// Invariants: (1) a storage whose cost_epoch is the current one caches exactly what a fresh walk
// gives. See docs/life-of-an-eviction.md.
#pragma once

#include <cstdint>

#include "remat/neighbourhood.h"
#include "remat/policy.h"

namespace tidepool::remat {

class Need1Policy final : public Policy {
 public:
  explicit Need1Policy(LineageStore& store) : store_(store), neighbourhood_(store) {}

  uint64_t projected_cost(Storage& storage) override;
  void availability_changed(Value& value) override;
  void begin_search() override;
  void check_invariants() override;

 private:
  uint64_t compute(const Storage& storage);

  // Changes between two searches after which caches are given up instead of kept exact.
  static constexpr uint32_t kPatience = 1024;

  LineageStore& store_;
  Neighbourhood neighbourhood_;
  uint32_t epoch_ = 1;
  uint32_t changes_ = kPatience;  // since the last search; kPatience: no cache is valid
};

}  // namespace tidepool::remat
