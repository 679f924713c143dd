// chaos_odds(): decides when bounded chaos evicts, and how much. At random moments everything, or a
// random part, is evicted, as long as no more than kReplaysPerOperator operators have been replayed
// for each one that the job has run. Because a restoration replays at most the lineage that is
// alive, a job then takes about that many times as long, and ends. Counts decide, not times, so
// that a job of one thread loses the same contents in each run with the same seed. The caller keeps
// the random generator.
#pragma once

#include <cstdint>

#include "allocator/base/splitmix.h"

namespace tidepool::remat {

inline constexpr uint64_t kReplaysPerOperator = 10;

// Called at an operator or an allocation: one in how many storages should be evicted now; 0: none.
uint64_t chaos_odds(uint64_t operators_run, uint64_t operators_replayed, SplitMix& random);

}  // namespace tidepool::remat
