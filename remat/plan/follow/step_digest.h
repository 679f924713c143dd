// step_digest: a hash by which a step of a job is known again in another process: its operators'
// names, which storages they read, write and make, and the sizes of these. Storages count by the
// order in which operators meet them, so that addresses and what the step does not touch do not
// matter. A simulation knows sizes as they are laid out, a job as they were asked for: both count
// rounded up. Times, streams and deaths are no part of it, nor are storages without bytes, nor that
// contents change unseen (kCutName), which a recording of one step does not see of what the step
// has not met.
#pragma once

#include <cstddef>
#include <cstdint>

#include "remat/trace/trace.h"

namespace tidepool::remat {

// The digest of a trace of one step. `alignment`: what sizes are rounded up to, a power of two.
uint64_t step_digest(const Trace& step, size_t alignment);

// How many operators it is of.
size_t digested_operators(const Trace& step);

}  // namespace tidepool::remat
