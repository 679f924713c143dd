// step_trace: one step of a trace as a trace of its own: what lives when it begins, and is used or
// dies in it, is there as a root. What a planner gets of a recorded job.
#pragma once

#include <cstddef>

#include "remat/trace/trace.h"

namespace tidepool::plan {

// The events of `trace` from `begin` up to `end`, which is not among them, and a mark of the step's
// end; no other marks. Requires: begin <= end <= trace.events.size().
Trace step_trace(const Trace& trace, size_t begin, size_t end);

// The trace's first step, whose mark is its event `end` - 1, and the same step once more: what
// lives when it ends, such as optimizer state, lives on until it is made again. Requires: end <=
// trace.events.size().
Trace twice(const Trace& trace, size_t end);

// The last step that has ended by event `end`: where it begins.
size_t step_begin(const Trace& trace, size_t end);

// The trace's last mark if operators come after it: it does not count then, and the last step ends
// with the trace, so that the trace repeated is its steps repeated. Else the number of events.
size_t last_step_end(const Trace& trace);

}  // namespace tidepool::plan
