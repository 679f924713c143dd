// Traces made up here, for replays without a recorded job: the same in every run.
#pragma once

#include "bench/allocator/trace.h"

namespace tidepool::bench {

// Steps of a network whose activations have the same sizes in every step.
Trace training_trace();
// Sequences of changing length: no two steps have the same sizes.
Trace varying_trace();

}  // namespace tidepool::bench
