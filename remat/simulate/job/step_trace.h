// step_trace: one step of a trace as a trace of its own, as a planner gets it of a recorded job.
// The storages that live when the step begins, and are used or die in it, are its roots.
#pragma once

#include <cstddef>

#include "remat/trace/trace.h"

namespace tidepool::remat {

// The events of `trace` from `begin` up to, but without, `end`, and after them a mark of the step's
// end. Other marks are left out. Requires: begin <= end <= trace.events.size().
Trace step_trace(const Trace& trace, size_t begin, size_t end);

// The trace's first step, whose mark is event `end` - 1, twice. Storages that live when the first
// of these ends, such as optimizer state, live on until the second makes them again. Requires: end
// <= trace.events.size().
Trace twice(const Trace& trace, size_t end);

// The event at which the last of the steps begins that have ended by event `end`.
size_t step_begin(const Trace& trace, size_t end);

// The event up to which marks end steps: the trace's last mark if operators come after it, else the
// number of events. A last mark with operators after it does not count: the last step ends with the
// trace, so that the repeated trace is its steps repeated.
size_t last_step_end(const Trace& trace);

}  // namespace tidepool::remat
