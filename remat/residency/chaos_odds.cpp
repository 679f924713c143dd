#include "remat/residency/chaos_odds.h"

namespace tidepool::remat {

uint64_t chaos_odds(uint64_t operators_run, uint64_t operators_replayed, SplitMix& random) {
  const uint64_t allowed = kReplaysPerOperator * operators_run;
  if (operators_replayed > allowed) return 0;
  // One moment in so many is chosen. While replays are few, it is every moment, so that shallow
  // jobs are tried as much as the bound allows; where each moment costs many replays, fewer are
  // chosen.
  const uint64_t moments = operators_replayed <= allowed / 2 ? 1 : 4;
  const uint64_t drawn = random.next();
  if (drawn % 4 >= 4 / moments) return 0;
  constexpr uint64_t kOdds[] = {1, 3, 9, 27};  // each leads to other orders of eviction
  return kOdds[drawn / 4 % 4];
}

}  // namespace tidepool::remat
