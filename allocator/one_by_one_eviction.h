// OneByOneEviction: DTR's loop (Kirisame et al. 2021, section 2), which evicts the block with the
// least price by byte, one after the other, instead of windows and selections of pages. It serves
// comparisons.
// Owns nothing but memory for its walks. Every function requires the device's lock.
#pragma once

#include "allocator/arena/arena.h"
#include "allocator/arena/page_supply.h"
#include "allocator/heap/block_walk.h"
#include "allocator/search/room_search.h"

namespace tidepool {

class OneByOneEviction {
 public:
  OneByOneEviction(Arena& arena, RoomSearch& search) : arena_(arena), search_(search) {}

  // One step of the loop: evicts one block (kRetry), unless free pages serve the request.
  Outcome serve(DeviceLock& lock, const Request& request, PageSupply& supply, BlockId& served);
  // Evicts, priced anew after each victim, until the request is within requested_limit_bytes. False
  // if that cannot be.
  bool make_bytes(DeviceLock& lock, const Request& request);

 private:
  // Evicts the block with the least price by byte, among equals that with the lowest address. False
  // if no block can be evicted.
  bool evict_cheapest(StreamId stream);

  Arena& arena_;
  RoomSearch& search_;
  BlockWalk walk_;
};

}  // namespace tidepool
