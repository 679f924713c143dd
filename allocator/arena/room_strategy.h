// RoomStrategy: another way to serve requests under the budget, for simulations that compare
// published allocators with ours on the same blocks and pages. No job has one.
#pragma once

#include <optional>

#include "allocator/arena/request.h"
#include "allocator/locks/device_mutex.h"

namespace tidepool {

struct Arena;
class PageSupply;
class RoomSearch;

// What a strategy works on.
struct RoomParts {
  Arena& arena;
  PageSupply& supply;
  RoomSearch& search;
};

class RoomStrategy {
 public:
  virtual ~RoomStrategy() = default;

  // A request has come, and nothing has been tried for it yet. May evict, and may say from which
  // end of a free block the request is cut. False: it cannot be served. Requires: lock held; it may
  // be released for a while.
  virtual bool admit(DeviceLock& lock, const RoomParts& parts, Request& request) = 0;

  // What is done in place of RoomMaker's evictions and moves; nothing: they are to be tried.
  // Requires: as admit().
  virtual std::optional<Outcome> reclaim(DeviceLock& lock, const RoomParts& parts,
                                         const Request& request, BlockId& served) = 0;
};

}  // namespace tidepool
