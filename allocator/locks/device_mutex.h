// DeviceMutex: the one lock per device, over arena, tracking and lineage metadata.
// Owns a graveyard: objects whose destructors may run foreign code (and may come back to us) are
// handed to drop_later() under the lock and destroyed by unlock() right after the lock is released.
// Thread safe. Not recursive: a thread that holds it must not call anything that takes it.
// Work under it is bounded: no kernel, copy, device call, callback into Python, or logging.
#pragma once

#include <mutex>
#include <vector>

#include "allocator/locks/lock_order.h"

namespace tidepool {

class DeviceMutex {
 public:
  DeviceMutex() = default;
  DeviceMutex(const DeviceMutex&) = delete;
  DeviceMutex& operator=(const DeviceMutex&) = delete;

  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() {
    if (graveyard_.empty()) [[likely]] {
      mutex_.unlock();
    } else {
      unlock_and_bury();
    }
  }

  // Destroys `object` by `destroy` after the lock is released. Requires: lock held.
  void drop_later(void* object, void (*destroy)(void*)) { graveyard_.push_back({object, destroy}); }

 private:
  struct Burial {
    void* object;
    void (*destroy)(void*);
  };

  // Apart, so that the usual way is short enough to be inlined.
  [[gnu::noinline]] void unlock_and_bury() {
    std::vector<Burial> burials;
    burials.swap(graveyard_);
    mutex_.unlock();
    for (const Burial& burial : burials) burial.destroy(burial.object);
  }

  RankedMutex<LockRank::kDevice> mutex_;
  std::vector<Burial> graveyard_;
};

// Functions that may release the lock for a while take a DeviceLock& that is held on entry and on
// exit, also when they throw.
using DeviceLock = std::unique_lock<DeviceMutex>;

// Releases the lock for a scope, and takes it again whichever way the scope ends.
class Unlocked {
 public:
  explicit Unlocked(DeviceLock& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  DeviceLock& lock_;
};

}  // namespace tidepool
