#include "allocator/lock_order.h"

namespace tidepool {

LockOrder::Held& LockOrder::held() {
  thread_local Held held = {};
  return held;
}

bool LockOrder::allows(LockRank rank) {
  const size_t first = static_cast<size_t>(rank) + (rank == LockRank::kDraw ? 1 : 0);
  for (size_t k = first; k < held().size(); ++k) {
    if (held()[k] > 0) return false;
  }
  return true;
}

void LockOrder::acquiring(LockRank rank) {
  TIDEPOOL_CHECK(allows(rank), "lock %d is taken by a thread that holds a later one",
                 static_cast<int>(rank));
}

}  // namespace tidepool
