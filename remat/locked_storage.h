// LockedStorage and HeldStorage: a storage that is locked against eviction for a scope.
#pragma once

#include <utility>

#include "remat/runtime.h"

namespace tidepool::remat {

// Requires: the device's lock is held at both ends.
class LockedStorage {
 public:
  LockedStorage(Runtime& runtime, Storage* storage) : runtime_(&runtime), storage_(storage) {
    runtime.lock_storage(storage);
  }
  ~LockedStorage() {
    if (storage_ != nullptr) runtime_->unlock_storage(storage_);
  }
  LockedStorage(LockedStorage&& other) noexcept
      : runtime_(other.runtime_), storage_(std::exchange(other.storage_, nullptr)) {}
  LockedStorage& operator=(LockedStorage&&) = delete;

 private:
  friend class HeldStorage;

  Runtime* runtime_;
  Storage* storage_;
};

// A lock that outlasts the device's lock: where it ends, the device's lock is not held, and is
// taken for that. A storage that the job frees meanwhile is dead, and its record stays valid.
class HeldStorage {
 public:
  // Holds nothing.
  HeldStorage() = default;
  // Goes on with a lock that was taken under the device's lock.
  explicit HeldStorage(LockedStorage&& locked)
      : runtime_(locked.runtime_), storage_(std::exchange(locked.storage_, nullptr)) {}
  ~HeldStorage() {
    if (storage_ == nullptr) return;
    DeviceLock lock(runtime_->mutex());
    end();
  }
  HeldStorage(HeldStorage&& other) noexcept
      : runtime_(other.runtime_), storage_(std::exchange(other.storage_, nullptr)) {}
  // Requires: this one holds nothing.
  HeldStorage& operator=(HeldStorage&& other) noexcept {
    runtime_ = other.runtime_;
    storage_ = std::exchange(other.storage_, nullptr);
    return *this;
  }

  // The storage; nullptr if nothing is held.
  Storage* get() const { return storage_; }
  // Ends the lock. Requires: the device's lock is held.
  void end() {
    Storage* const storage = std::exchange(storage_, nullptr);
    if (storage == nullptr) return;
    // Its address was handed out, for what it was held for among others.
    if (storage->fixed) storage->unwatched = true;
    runtime_->unlock_storage(storage);
  }

 private:
  Runtime* runtime_ = nullptr;
  Storage* storage_ = nullptr;
};

}  // namespace tidepool::remat
