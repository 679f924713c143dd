// Tripwire: notices writers of raw pointers that no dispatcher shows, where PyTorch (2.13 and
// later) has a materializer slot: a one-shot hook of a StorageImpl that fires on every mutable
// access to its pointer. Armed on every resident tracked storage; a kernel that we intercept
// consumes it, so it is armed again after each operator.
// On a hit from outside: the contents become a new root version that stays where it is; on a second
// hit, or if the storage is unstable already, it is escaped for good.
// On other versions the functions do nothing: the conservative mode (docs/supported.md).
// Requires, but for the hook itself: the device's lock held.
#pragma once

#include <c10/core/StorageImpl.h>

#include "remat/lineage/lineage.h"

namespace tidepool::torch_glue::tripwire {

#if TIDEPOOL_TORCH_MINOR >= 13
inline constexpr bool kAvailable = true;
void on_raw_access(c10::StorageImpl* storage);
inline void arm(c10::StorageImpl* storage) {
  if (!storage->has_materializer()) storage->set_materializer(&on_raw_access);
}
inline void disarm(c10::StorageImpl* storage) { storage->clear_materializer(); }
#else
inline constexpr bool kAvailable = false;
inline void arm(c10::StorageImpl*) {}
inline void disarm(c10::StorageImpl*) {}
#endif

// Arms again what an operator consumed, unless the storage is beyond it.
inline void rearm(const remat::Storage& storage) {
  if (storage.dead || storage.escaped || storage.evicted) return;
  arm(static_cast<c10::StorageImpl*>(storage.backend));
}

}  // namespace tidepool::torch_glue::tripwire
