// Owner: whoever would restore a block's contents, as the allocator knows it; with the price of
// giving the contents up, and hints where they should lie.
// Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace tidepool {

// The owner of a block's contents; the allocator does not look into it (remat: a Storage). nullptr:
// no storage has adopted the block (it is a workspace, or an output of the operator that is
// running), and it cannot be evicted.
using Owner = void*;

// The price of evicting one block, in fixed point: only sums and comparisons of prices matter. A
// block that must not be evicted is marked as a barrier, not by a large number. The greatest price
// keeps sums over 2^20 blocks from overflowing.
struct Price {
  static constexpr uint64_t kGreatest = std::numeric_limits<uint64_t>::max() >> 20;
  uint64_t value = 0;
  bool barrier = false;

  static Price blocked() { return {0, true}; }
};

// Where a block should lie. Long-lived contents (parameters, gradients, optimizer state,
// workspaces, escaped tensors) lie tightly at one end of the range, all others elsewhere.
enum class PlacementHint : uint8_t { kTransient, kLongLived };

// The end of a free place at which a smaller block is put.
enum class End : uint8_t { kLow, kHigh };

}  // namespace tidepool
