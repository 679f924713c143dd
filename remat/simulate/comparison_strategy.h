// ComparisonStrategy: what published allocators do otherwise than ours, for comparison:
// - DTR's loop (Kirisame et al. 2021, section 2) in place of windows and selections: the least
// price
//   by byte goes, one after the other, until a free block, or free pages where they may be moved,
//   serve the request;
// - fungible bytes: a cap on the bytes that callers asked for. Where pages abound beside it, it
// does
//   not matter where victims lie, and they go as in DTR's loop;
// - an end of free blocks for each request, by which Coop keeps what is cheap apart
//   (coop_placement.h).
// Owns its settings and memory for its walks. Not thread safe: one allocator's, whose lock it
// needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "allocator/arena/arena.h"
#include "allocator/arena/room_strategy.h"
#include "allocator/heap/block_walk.h"

namespace tidepool::plan {

struct ComparisonSettings {
  bool evict_singly = false;
  bool partition = false;  // requests come with an end: set_end()
  size_t requested_limit_bytes = SIZE_MAX;

  bool any() const { return evict_singly || partition || requested_limit_bytes < SIZE_MAX; }
};

class ComparisonStrategy final : public RoomStrategy {
 public:
  explicit ComparisonStrategy(const ComparisonSettings& settings) : settings_(settings) {}

  // The next request is cut from this end; others are from the low one.
  void set_end(End end) { end_ = end; }

  bool admit(DeviceLock& lock, const RoomParts& parts, Request& request) override;
  // One step of the loop: evicts one block (kRetry), unless free pages serve the request.
  std::optional<Outcome> reclaim(DeviceLock& lock, const RoomParts& parts, const Request& request,
                                 BlockId& served) override;

 private:
  // The least price by byte, the lowest address among equals; false if there is no victim.
  bool evict_cheapest(Arena& arena, StreamId stream);

  const ComparisonSettings settings_;
  End end_ = End::kLow;
  BlockWalk walk_;
};

}  // namespace tidepool::plan
