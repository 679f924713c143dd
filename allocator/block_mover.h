// BlockMover: moves the contents of a window's blocks to blocks elsewhere, so that the window
// becomes free. Where there is no free place for a block, one is made by evicting another window,
// from which smaller blocks may move in turn.
// Owns nothing. Every function requires the device's lock; the reclaimer, who does the copying, may
// release it for a while, so that several threads may be in here. See
// docs/life-of-an-allocation.md, "Reclaim".
#pragma once

#include "allocator/arena/arena.h"
#include "allocator/arena/room_plan.h"
#include "allocator/search/room_search.h"

namespace tidepool {

class BlockMover {
 public:
  BlockMover(Arena& arena, RoomSearch& search) : arena_(arena), search_(search) {}

  // Moves the plan's blocks out of the window. kRetry: they have moved, and a new search will find
  // the window cheaper. kNothing: there were not enough places, and only smaller blocks may move
  // for the request from now on. Takes one of the request's moves, and one more for each window
  // that is emptied to make a place.
  Outcome empty_window(DeviceLock& lock, Request& request, const MovesPlan& plan);

  // Moves the contents of the block `from` to the allocated block `to`, if they are still `owner`'s
  // and may move. False: nothing has moved, and `to` is free again.
  bool move(DeviceLock& lock, BlockRef from, Owner owner, BlockId to, StreamId stream);

 private:
  // Tells the observer that a move allocates a block, or frees it.
  void tell(BlockId id, bool allocated);

  Arena& arena_;
  RoomSearch& search_;
};

}  // namespace tidepool
