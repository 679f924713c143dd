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

class ABSL_LOCKABLE DeviceMutex {
 public:
  DeviceMutex() = default;
  DeviceMutex(const DeviceMutex&) = delete;
  DeviceMutex& operator=(const DeviceMutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (!mutex_.try_lock()) [[unlikely]]
      lock_contended();
  }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return mutex_.try_lock();
  }
  void unlock() ABSL_UNLOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (graveyard_.empty()) [[likely]] {
      mutex_.unlock();
    } else {
      unlock_and_bury();
    }
  }

  // Around a fork() a thread holds the locks of all devices, taken in one order. One that it has
  // kept so does not count in LockOrder. Requires: lock held.
  void keep_through_fork() { LockOrder::released(LockRank::kDevice); }
  void unlock_after_fork() ABSL_UNLOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    LockOrder::acquired(LockRank::kDevice);
    unlock();
  }

  // Destroys `object` by `destroy` after the lock is released. Requires: lock held.
  void drop_later(void* object, void (*destroy)(void*)) { graveyard_.push_back({object, destroy}); }
  // Destroys now what has been dropped. `lock`: of this mutex; it is released meanwhile.
  void bury(std::unique_lock<DeviceMutex>& lock) {
    while (!graveyard_.empty()) {
      lock.unlock();
      lock.lock();
    }
  }

 private:
  struct Burial {
    void* object;
    void (*destroy)(void*);
  };

  // Waits; an interpreter's lock is let go of meanwhile if the holder wants it (InterpreterLock).
  void lock_contended() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // Apart, so that the usual way is short enough to be inlined.
  [[gnu::noinline]] void unlock_and_bury() ABSL_NO_THREAD_SAFETY_ANALYSIS {
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
