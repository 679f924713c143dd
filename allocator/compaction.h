// Compaction: moves small blocks that may not be evicted from pages that they alone keep to gaps in
// pages that are kept in any case.
#pragma once

#include <cstddef>

#include "allocator/arena/arena.h"
#include "allocator/block_mover.h"

namespace tidepool {

// Does what BudgetedAllocator::compact() says. Requires: lock held; it is released for a while.
// O(blocks + pages · free blocks).
size_t compact(DeviceLock& lock, Arena& arena, BlockMover& mover, StreamId stream);

}  // namespace tidepool
