// Reports of requests that cannot be served: what memory is in use for, and which budget would have
// been too small in any case.
#pragma once

#include "allocator/arena/arena.h"
#include "allocator/arena/out_of_memory.h"
#include "allocator/search/room_search.h"

namespace tidepool {

// Counts the failure, and makes its report. Requires: lock held. O(blocks · log blocks).
OutOfMemoryReport report_shortage(Arena& arena, RoomSearch& search, const Request& request);

}  // namespace tidepool
