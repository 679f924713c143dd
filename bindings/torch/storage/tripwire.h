// Tripwire: notices writes through raw pointers that no dispatcher shows, by a one-shot hook of
// StorageImpl that fires on a mutable access to its pointer (the materializer slot of PyTorch 2.13
// and later). It is armed on every resident tracked storage, but for those whose address was handed
// out, until an operator uses them again. Where it is used up by what has locked
// the storage, an operator or somebody for whom it is held, it is armed again when nothing locks
// the storage any more. If it fires outside of such kernels, the contents become a new root version
// that stays where it is. If it fires a second time, or the storage is unstable already, the
// storage escapes for good. On older versions the functions do nothing (docs/supported.md). All
// functions but the hook itself require the device's lock.
#pragma once

#include <c10/core/StorageImpl.h>

#include "remat/lineage/lineage.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue::tripwire {

// The job is C++, where an address that is asked for is mostly kept, and written through later: the
// first access makes a storage escape, and so does a first sight of contents that no operator has
// made, whose address was needed to write them. Set before anything is tracked.
extern bool g_addresses_are_kept;

// Whether an operator that we see uses the storage on the calling thread, or on threads that work
// for it, one of which the calling thread may be.
bool is_used_by_operator(remat::Runtime& runtime, const remat::Storage& storage);

// Whether the calling thread may have the address of a storage as it is: nothing has to be done so
// that it is there, stays, and is known to be written where it may be.
bool is_accessible(remat::Runtime& runtime, const remat::Storage& storage, bool may_write);

#if TIDEPOOL_TORCH_MINOR >= 13
inline constexpr bool kAvailable = true;
void on_raw_access(c10::StorageImpl* storage);
inline bool arm(c10::StorageImpl* storage) {
  if (storage->has_materializer()) return false;
  storage->set_materializer(&on_raw_access);
  return true;
}
inline void disarm(c10::StorageImpl* storage) { storage->clear_materializer(); }
#else
inline constexpr bool kAvailable = false;
inline bool arm(c10::StorageImpl*) { return true; }
inline void disarm(c10::StorageImpl*) {}
#endif

// Arms the hook again, unless the storage is evicted, dead or escaped. False: it is armed already,
// or fires just now, and is used up once it has.
inline bool rearm(const remat::Storage& storage) {
  if (storage.dead || storage.escaped || storage.evicted) return true;
  return arm(static_cast<c10::StorageImpl*>(storage.framework_storage));
}

}  // namespace tidepool::torch_glue::tripwire
