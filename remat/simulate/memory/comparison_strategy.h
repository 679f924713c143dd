// ComparisonStrategy: ways of published allocators to make room, for comparison with ours:
// - DTR's loop (Kirisame et al. 2021, section 2), in place of windows and selections: blocks are
//   evicted one by one, the one with the least price by byte first, until a free block serves the
//   request, or free pages do where pages may be moved;
// - fungible bytes: a cap on the bytes that callers asked for. The simulated device has pages in
//   abundance then, so that it does not matter where victims lie, and DTR's loop evicts them;
// - an end of free blocks for each request, by which Coop keeps cheap results apart from dear ones
//   (coop_placement.h).
// Owns its settings, and memory for its walks over blocks. Not thread safe: it belongs to one
// allocator, whose lock its functions require.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "allocator/arena/arena.h"
#include "allocator/arena/room_strategy.h"
#include "allocator/blocks/block_walk.h"

namespace tidepool::remat {

struct ComparisonSettings {
  bool evict_singly = false;
  bool partition = false;  // each request is cut from the end that set_end() has named
  size_t requested_limit_bytes = SIZE_MAX;

  bool any() const { return evict_singly || partition || requested_limit_bytes < SIZE_MAX; }
};

class ComparisonStrategy final : public RoomStrategy {
 public:
  explicit ComparisonStrategy(const ComparisonSettings& settings) : settings_(settings) {}

  // The next request is cut from this end of a free block; all others are cut from the low end.
  void set_end(End end) { end_ = end; }

  bool admit(DeviceLock& lock, const RoomParts& parts, Request& request) override;
  // One step of the loop: evicts one block (kRetry), unless free pages serve the request.
  std::optional<Outcome> reclaim(DeviceLock& lock, const RoomParts& parts, const Request& request,
                                 BlockId& served) override;

 private:
  // Evicts the block with the least price by byte, among equals the one with the lowest address.
  // Returns false if no block can be evicted.
  bool evict_cheapest(Arena& arena, StreamId stream);

  const ComparisonSettings settings_;
  End end_ = End::kLow;
  BlockWalk walk_;
};

}  // namespace tidepool::remat
