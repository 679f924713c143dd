// LockedStorage: a storage that is locked against eviction for a scope.
// Requires: the device's lock is held at both ends.
#pragma once

#include "remat/runtime.h"

namespace tidepool::remat {

class LockedStorage {
 public:
  LockedStorage(Runtime& runtime, Storage* storage) : runtime_(runtime), storage_(storage) {
    runtime_.lock_storage(storage_);
  }
  ~LockedStorage() { runtime_.unlock_storage(storage_); }
  LockedStorage(const LockedStorage&) = delete;
  LockedStorage& operator=(const LockedStorage&) = delete;

 private:
  Runtime& runtime_;
  Storage* const storage_;
};

}  // namespace tidepool::remat
