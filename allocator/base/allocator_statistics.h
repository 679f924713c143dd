// AllocatorStatistics: what an allocator has done since its start, and what it holds now.
// Plain data. Bytes are current unless they say peak; a peak is of the sum, at one instant. Names
// follow torch.cuda.memory_stats where that has the notion.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidepool {

struct AllocatorStatistics {
  size_t budget_bytes = 0;
  size_t limit_bytes = 0;  // of committed pages: the budget, or less, as the device refused more
  size_t requested_bytes = 0, requested_peak_bytes = 0;  // asked by callers
  size_t allocated_bytes = 0, allocated_peak_bytes = 0;  // blocks handed out
  size_t reserved_bytes = 0, reserved_peak_bytes = 0;    // committed pages
  size_t awaiting_bytes = 0;                             // freed, but still used elsewhere
  uint64_t allocations = 0, frees = 0;
  uint64_t evictions = 0, evicted_bytes = 0;
  uint64_t windows = 0;  // requests served by a contiguous window
  uint64_t remaps = 0;   // requests served by moving pages
  uint64_t remapped_bytes = 0;
  uint64_t shortlisted = 0;  // windows and remaps that were found without a look at all blocks
  uint64_t moves = 0;        // blocks whose contents were moved to make room
  uint64_t moved_bytes = 0;
  uint64_t lent = 0;          // requests served by another stream's memory
  uint64_t stream_waits = 0;  // times that a stream was made to wait for another
  uint64_t retries = 0;       // requests that waited for other threads and searched again
  uint64_t out_of_memory = 0;
  uint64_t device_refusals = 0;  // times that the device had no memory below the budget
  uint64_t search_ns = 0;        // time spent searching for room (misses only)
  uint64_t prices = 0;           // asked for by searches, whose time grows with their number
};

}  // namespace tidepool
