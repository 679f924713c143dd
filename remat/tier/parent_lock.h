// How tiers lock what load() changes without the device's lock. In a forked child, which has one
// thread, a mutex may be held for ever by a thread that is not there: nothing is locked in it.
#pragma once

#include <mutex>

namespace tidepool::remat {

// Returns a guard that holds `mutex` or, where the process is a forked child, nothing.
inline std::unique_lock<std::mutex> lock_in_parent(std::mutex& mutex, bool forked) {
  return forked ? std::unique_lock<std::mutex>() : std::unique_lock<std::mutex>(mutex);
}

}  // namespace tidepool::remat
