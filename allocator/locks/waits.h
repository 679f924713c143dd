// How threads wait for each other with a device's lock: by these functions, so that nothing is
// buried (DeviceMutex::drop_later()) inside a condition variable, which has a mutex of its own. A
// burial may free a storage and so wait for the lock, whose holder may wait for that mutex. Nor
// does a thread keep an interpreter's lock while it waits for another one, which may want it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "allocator/locks/device_mutex.h"
#include "allocator/locks/interpreter_lock.h"

namespace tidepool {

// As std::condition_variable_any's. Requires: lock held; it is released meanwhile.
template <typename Predicate>
void wait(std::condition_variable_any& change, DeviceLock& lock, Predicate&& is_over) {
  lock.mutex()->bury(lock);
  if (!InterpreterLock::is_held()) return change.wait(lock, is_over);
  while (!change.wait_for(lock, std::chrono::milliseconds(5), is_over)) {
    const Unlocked unlocked(lock);
    InterpreterLock::let_go_once();
  }
}

template <typename Predicate>
void wait_for(std::condition_variable_any& change, DeviceLock& lock, std::chrono::milliseconds time,
              Predicate&& is_over) {
  lock.mutex()->bury(lock);
  change.wait_for(lock, time, std::forward<Predicate>(is_over));
}

// For a forked child: nobody waits, and what the threads did inside that do not exist there is
// gone. The one before may be locked by them, so that it can never be destroyed: it is put aside,
// where checkers of leaks find it. Thread safe.
inline void become_unused(std::condition_variable_any& change) {
  struct PutAside {
    std::array<std::byte, sizeof(change)> bytes;
    PutAside* next;
  };
  static std::atomic<PutAside*> all{nullptr};
  auto* const before = new PutAside{{}, all.load()};
  std::memcpy(before->bytes.data(), &change, sizeof(change));
  while (!all.compare_exchange_weak(before->next, before)) {
  }
  new (&change) std::condition_variable_any;
}

}  // namespace tidepool
