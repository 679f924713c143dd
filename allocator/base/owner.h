// Owner: whoever would restore a block's contents, as the allocator knows him; with what giving the
// contents up would cost, and where they should lie.
// Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace tidepool {

// Opaque owner of a block's contents (remat: its Storage); nullptr: a block never adopted by a
// storage (workspace, output of the operator now running), which cannot be evicted.
using Owner = void*;

// Price of evicting one block, in fixed point (only sums and comparisons matter). A barrier is a
// flag, never a large number; the greatest price keeps sums over 2^20 blocks from overflowing.
struct Price {
  static constexpr uint64_t kGreatest = std::numeric_limits<uint64_t>::max() >> 20;
  uint64_t value = 0;
  bool barrier = false;

  static Price blocked() { return {0, true}; }
};

// Where a block should lie: long-lived contents (parameters, gradients, optimizer state,
// workspaces, escaped) tight at one end, the rest from the other. Of the rest, what is cheap to
// make again can be asked to lie at the high end of free blocks, where all else takes the low end:
// then cheap windows exist (Coop's cheap tensor partitioning, Zhang et al. 2023, section 3).
enum class PlacementHint : uint8_t { kTransient, kLongLived, kCheap };

// An end of a place that is larger than what it takes.
enum class End : uint8_t { kLow, kHigh };

}  // namespace tidepool
