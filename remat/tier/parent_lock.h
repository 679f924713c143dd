// ParentLock: how tiers lock what load() changes without the device's lock. In a forked child,
// which has one thread, a mutex may be held for ever by a thread that is not there: nothing is
// locked in it. The analysis of thread safety sees a lock that is always held.
#pragma once

#include "allocator/locks/mutex.h"

namespace tidepool::remat {

class ABSL_SCOPED_LOCKABLE ParentLock {
 public:
  // Holds `mutex` for a scope or, where the process is a forked child, nothing.
  ParentLock(Mutex& mutex, bool forked)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS
      : mutex_(forked ? nullptr : &mutex) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~ParentLock() ABSL_UNLOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  ParentLock(const ParentLock&) = delete;
  ParentLock& operator=(const ParentLock&) = delete;

 private:
  Mutex* const mutex_;
};

}  // namespace tidepool::remat
