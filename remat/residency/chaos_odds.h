// Chaos odds: when bounded chaos strikes and how hard. At random moments, everything or a random
// part of it is evicted, as long as what was replayed so far is no more than kReplaysPerOperator
// times what the job itself has run: each restoration replays the lineage that is alive at most, so
// that a job takes that many times as long, and ends. Counts decide, not times: a job of one thread
// is struck at the same moments in each run with the same seed.
// Stateless but for the generator's state, which the caller keeps.
#pragma once

#include <cstdint>

namespace tidepool::remat {

inline constexpr uint64_t kReplaysPerOperator = 10;

// At an operator or an allocation: one in how many storages is to be evicted; 0: none now.
uint64_t chaos_odds(uint64_t operators_run, uint64_t operators_replayed, uint64_t* random);

// The next number of a generator with so little state (splitmix64).
uint64_t next_random(uint64_t* state);

}  // namespace tidepool::remat
