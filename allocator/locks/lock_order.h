// LockOrder: the order in which a thread may take our locks, outermost first. Threads that keep to
// one order never deadlock. Builds with assertions check it; releases do not. RankedMutex is a
// mutex with a place in the order. Thread safe: each thread has a list of its own of what it holds.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "allocator/base/check.h"

namespace tidepool {

enum class LockRank : uint8_t {
  kOperators,  // registration of operators
  kDevice,     // arena, tracking, lineage
  kSpace,      // an address space's own bookkeeping
  kCount,
};

class LockOrder {
 public:
  // True if the calling thread holds no lock that comes after `rank`, nor the same one.
  static bool allows(LockRank rank);
  static void acquiring(LockRank rank);  // aborts unless allows(rank)
  static void acquired(LockRank rank) { ++held()[static_cast<size_t>(rank)]; }
  static void released(LockRank rank) { --held()[static_cast<size_t>(rank)]; }

 private:
  using Held = std::array<uint8_t, static_cast<size_t>(LockRank::kCount)>;
  static Held& held();
};

#ifdef NDEBUG
template <LockRank rank, class Mutex = std::mutex>
using RankedMutex = Mutex;
#else
template <LockRank rank, class Mutex = std::mutex>
class RankedMutex {
 public:
  void lock() {
    LockOrder::acquiring(rank);
    mutex_.lock();
    LockOrder::acquired(rank);
  }
  bool try_lock() {
    LockOrder::acquiring(rank);
    if (!mutex_.try_lock()) return false;
    LockOrder::acquired(rank);
    return true;
  }
  void unlock() {
    LockOrder::released(rank);
    mutex_.unlock();
  }

 private:
  Mutex mutex_;
};
#endif

}  // namespace tidepool
