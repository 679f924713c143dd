// BlockMover: moves contents of blocks to other blocks, so that a window becomes free. Where there
// is no free place for them, a place is made by evicting elsewhere, from which smaller blocks may
// move in turn.
// Owns nothing. Every function requires the device's lock; the reclaimer, who does the copying, may
// release it for a while, so that several threads may be in here.
// See docs/life-of-an-allocation.md, "Reclaim".
#pragma once

#include "allocator/arena/arena.h"
#include "allocator/arena/room_plan.h"
#include "allocator/search/room_search.h"

namespace tidepool {

class BlockMover {
 public:
  BlockMover(Arena& arena, RoomSearch& search) : arena_(arena), search_(search) {}

  // Moves out of the window what the plan says. kRetry: the window is cheaper by what has moved.
  // kNothing: there are not enough places, and smaller blocks count as movable for the request from
  // now on. Takes one of the request's moves, and one for each window that is emptied for a place.
  Outcome empty(DeviceLock& lock, Request& request, const MovesPlan& plan);

  // The contents go from one allocated block to the other, if they are still `owner`'s and may.
  // False: the place is free again, and nothing has moved.
  bool move(DeviceLock& lock, BlockRef from, Owner owner, BlockId to, StreamId stream);

 private:
  Arena& arena_;
  RoomSearch& search_;
};

}  // namespace tidepool
