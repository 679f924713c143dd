// CallContext: what operator calls work with: the parts of the runtime that they use, and the
// little state that the calls of all threads share. Owned by the Runtime.
// Not thread safe, except for `recording`: the device's lock is held.
#pragma once

#include <atomic>
#include <cstdint>

#include "remat/chaos.h"
#include "remat/limits.h"
#include "remat/observation.h"
#include "remat/restore/contents.h"
#include "remat/restore/prefetcher.h"
#include "remat/restore/restorer.h"
#include "remat/steps/step_history.h"
#include "remat/versions.h"

namespace tidepool::remat {

struct CallContext {
  Contents& contents;
  Restorer& restorer;
  Prefetcher& prefetcher;
  Versions& versions;
  LimitKeeper& limits;
  Observation& observation;
  ChaosEvictions& chaos;
  StepHistory* step_history;  // the policy's; nullptr: the policy does not look ahead, or not yet

  std::atomic<bool> recording{true};
  uint64_t step = 0;         // of the job
  uint64_t settlements = 0;  // how often settling has begun or ended; see Runtime::begin_settling()
  uint64_t operators_seen = 0, operators_recorded = 0;
  uint64_t operand_checks = 0;  // of operands that calls write, before they write
};

}  // namespace tidepool::remat
