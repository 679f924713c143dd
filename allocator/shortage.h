// Reports of requests that nothing can serve: what is in use, for what, and which budget would have
// been too small in any case.
#pragma once

#include "allocator/arena/arena.h"
#include "allocator/arena/out_of_memory.h"
#include "allocator/search/room_search.h"

namespace tidepool {

// Requires: lock held. Counts the failure. O(blocks · log blocks).
OutOfMemoryReport report_shortage(Arena& arena, RoomSearch& search, const Request& request);

}  // namespace tidepool
