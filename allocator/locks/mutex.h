// Mutex: a mutex that clang's analysis of thread safety follows; it cannot follow the standard
// library's. What it guards is declared with ABSL_GUARDED_BY, and what is called while it is held
// with ABSL_EXCLUSIVE_LOCKS_REQUIRED; `./dev lint --tidy` reports an access without the lock.
// MutexLock holds a Mutex, or a RankedMutex, for a scope. To wait for a change, pass the mutex
// itself to a std::condition_variable_any, in a loop: the analysis does not see that a predicate
// runs under the lock.
#pragma once

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tidepool {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

template <class AnyMutex>
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(AnyMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  AnyMutex& mutex_;
};

}  // namespace tidepool
