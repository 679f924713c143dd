// ChaosEvictions: evicts without need, at operators and at allocations, so that jobs show whether
// what is restored has the same bits.
// Owns the state of the random generator that decides when. Not thread safe: the device's lock is
// held.
#pragma once

#include <cstdint>

#include "remat/residency/chaos_odds.h"
#include "remat/residency/residency.h"
#include "remat/restore/restorer.h"

namespace tidepool::remat {

enum class Chaos : uint8_t {
  kNone,
  kOperator,    // evicts everything evictable after every operator
  kAllocation,  // evicts everything evictable after every operator and at every allocation
  kRandom,      // evicts a random part after every operator and at every allocation
  kBounded,     // evicts everything or a part at random moments, as often as replays allow
  // Evicts everything evictable after every operator, by a copy or without, at random.
  kOffload,
};

constexpr bool strikes_at_allocations(Chaos chaos) {
  return chaos == Chaos::kAllocation || chaos == Chaos::kRandom || chaos == Chaos::kBounded;
}

class ChaosEvictions {
 public:
  ChaosEvictions(Chaos kind, uint64_t seed, Residency& residency, const Restorer& restorer)
      : kind_(kind), random_(seed), residency_(residency), restorer_(restorer) {
    if (kind != Chaos::kNone) residency.check.enable_counts();
    if (kind == Chaos::kOffload) residency.choose_ways_at_random(seed);
  }

  // Evict, as the kind of chaos asks for. `operators_run`: how many operators the job has run.
  void at_operator(uint64_t operators_run) {
    if (kind_ != Chaos::kNone) [[unlikely]]
      evict(operators_run);
  }
  void at_allocation(uint64_t operators_run) {
    if (strikes_at_allocations(kind_)) evict(operators_run);
  }

 private:
  void evict(uint64_t operators_run) {
    uint64_t odds = kind_ == Chaos::kRandom ? 3 : 1;
    if (kind_ == Chaos::kBounded) {
      odds = chaos_odds(operators_run, restorer_.statistics.operators_replayed, random_);
    }
    if (odds > 0) residency_.evict_everything(odds, &random_);
  }

  const Chaos kind_;
  SplitMix random_;
  Residency& residency_;
  const Restorer& restorer_;
};

}  // namespace tidepool::remat
