// Storage access: all that eviction does to the inside of c10::StorageImpl, with the differences
// between PyTorch versions. Stateless. All functions require the device's lock, except the
// deleters, which PyTorch calls and which take it.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "allocator/locks/device_mutex.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue {

// The deleter of a DataPtr whose bytes are a block of ours (its context is the data), and the
// allocator's raw_deleter(). Each plugin defines it.
void delete_block(void* address);
// The deleter of a DataPtr of an evicted storage, whose data is null and whose context is the
// remat::Storage.
void delete_evicted(void* storage);

// Whether a storage is ours, whether its bytes were evicted, and whether they are a block. One of
// ours without bytes is neither.
inline bool is_evicted(const c10::DataPtr& data) { return data.get_deleter() == &delete_evicted; }
inline bool is_ours(const c10::DataPtr& data) {
  return data.get_deleter() == &delete_block || is_evicted(data);
}
inline bool holds_block(const c10::DataPtr& data) {
  return data.get_deleter() == &delete_block && data.get() != nullptr;
}

inline c10::StorageImpl* storage_of(const c10::TensorImpl* tensor) {
  return tensor->has_storage() ? tensor->unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

// Whether the tensor's bytes are page-locked memory of the host's, which a device may have yet to
// write.
bool is_pinned(const c10::TensorImpl& tensor);

// These take and drop a counted weak reference, so that a storage can be looked at while it may be
// dying.
void hold_weakly(c10::StorageImpl* storage);
void drop_weak_hold(c10::StorageImpl* storage);

// Starts to track a storage whose bytes are a block of ours, as a root. Returns nullptr if another
// storage with these bytes is tracked already.
remat::Storage* start_tracking(remat::Runtime& runtime, c10::StorageImpl* storage,
                               remat::RootReason reason);

// Lets the address of a resident, locked storage go to somebody who may write there: that need not
// be noticed any more. `kept`: for good, so that the storage escapes; else its contents become a
// new root version that stays where it is. Requires: lock held.
void hand_out_address(remat::Runtime& runtime, remat::Storage* storage, bool kept,
                      DeviceLock& lock);

// The same for any tracked storage, which is restored before.
void restore_and_hand_out(remat::Runtime& runtime, remat::Storage* storage, bool kept,
                          DeviceLock& lock);

// Takes the bytes out of `storage`, which must hold `address`, and marks it so that raw reads
// raise. The strong reference that this needs is dropped after the lock is released.
// False if the storage is dying or holds other bytes.
bool take_bytes(c10::StorageImpl* storage, void* address, remat::Storage* tracking,
                DeviceMutex& mutex);

// Gives the bytes back to `storage`. False if the storage is dying, or is no longer in the evicted
// state of `tracking`.
bool give_bytes(c10::StorageImpl* storage, void* address, remat::Storage* tracking,
                DeviceMutex& mutex);

}  // namespace tidepool::torch_glue
