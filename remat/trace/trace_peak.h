// trace_peak(): the most bytes that a trace holds at once if nothing is evicted and nothing is lost
// between blocks; budget ratios refer to it. It is a plain count of bytes or, for a trace with
// blocks, of these.
#pragma once

#include <cstddef>

#include "remat/trace/trace.h"

namespace tidepool::remat {

struct TracePeak {
  size_t peak_bytes = 0;  // while an operator runs, its outputs and workspace included
  // No smaller budget can be enough, whatever is evicted and when: the roots that live, and one
  // operator's operands, outputs and workspace, at the moment when they are most.
  size_t floor_bytes = 0;
  size_t end_bytes = 0;  // of all that lives at the end
};

TracePeak trace_peak(const Trace& trace);

}  // namespace tidepool::remat
