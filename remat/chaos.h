// ChaosEvictions: evicts without need, at operators and at allocations, so that jobs show whether
// what is restored has the same bits. Owns the state of the random generator behind that.
// Not thread safe: the device's lock is held.
#pragma once

#include <cstdint>

#include "remat/residency/chaos_odds.h"
#include "remat/residency/residency.h"
#include "remat/restore/restorer.h"

namespace tidepool::remat {

enum class Chaos : uint8_t {
  kNone,
  kOperator,    // evict everything evictable after every operator
  kAllocation,  // ... at every allocation, too
  kRandom,      // a random subset at each of both, by seed
  kBounded,     // everything or a subset at random ones of both, as often as replays allow
};

class ChaosEvictions {
 public:
  ChaosEvictions(Chaos kind, uint64_t seed, Residency& residency, const Restorer& restorer)
      : kind_(kind), random_(seed), residency_(residency), restorer_(restorer) {
    if (kind != Chaos::kNone) residency.check.enable();
  }

  // The job has run so many operators by now.
  void at_operator(uint64_t operators_run) {
    if (kind_ != Chaos::kNone) [[unlikely]]
      evict(operators_run);
  }
  void at_allocation(uint64_t operators_run) {
    if (kind_ != Chaos::kNone && kind_ != Chaos::kOperator) evict(operators_run);
  }

 private:
  void evict(uint64_t operators_run) {
    uint64_t odds = kind_ == Chaos::kRandom ? 3 : 1;
    if (kind_ == Chaos::kBounded) {
      odds = chaos_odds(operators_run, restorer_.statistics.operators_replayed, &random_);
    }
    if (odds > 0) residency_.evict_everything(odds, &random_);
  }

  const Chaos kind_;
  uint64_t random_;
  Residency& residency_;
  const Restorer& restorer_;
};

}  // namespace tidepool::remat
