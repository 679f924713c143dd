#include "allocator/locks/lock_order.h"

namespace tidepool {

LockOrder::Held& LockOrder::held() {
  thread_local Held held = {};
  return held;
}

bool LockOrder::allows(LockRank rank) {
  for (size_t k = static_cast<size_t>(rank); k < held().size(); ++k) {
    if (held()[k] > 0) return false;
  }
  return true;
}

void LockOrder::acquiring(LockRank rank) {
  TIDEPOOL_CHECK(allows(rank), "lock %d is taken by a thread that holds a later one",
                 static_cast<int>(rank));
}

}  // namespace tidepool
