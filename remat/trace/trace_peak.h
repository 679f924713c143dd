// trace_peak: the bytes that a trace holds at most at once where nothing is evicted and nothing is
// lost between blocks: what a budget ratio refers to. A plain count; in a trace with blocks, of
// these.
#pragma once

#include <cstddef>

#include "remat/trace/trace.h"

namespace tidepool::plan {

struct TracePeak {
  size_t peak_bytes = 0;  // while an operator runs, its outputs and workspace included
  // No budget below can do, whatever is evicted and when: roots that live, and one operator's
  // operands, outputs and workspace.
  size_t floor_bytes = 0;
  size_t end_bytes = 0;  // of all that lives at the end
};

TracePeak trace_peak(const Trace& trace);

}  // namespace tidepool::plan
