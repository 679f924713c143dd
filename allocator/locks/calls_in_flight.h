// CallsInFlight: counts the sequences of device calls that threads make without the device's lock,
// so that others can wait for them.
// Thread safe under that lock: every function requires it; the waits release it meanwhile.
#pragma once

#include <condition_variable>
#include <cstddef>

#include "allocator/locks/device_mutex.h"
#include "allocator/locks/waits.h"

namespace tidepool {

class CallsInFlight {
 public:
  // One sequence of device calls, from its plan to its result. Requires: lock held at both ends.
  class Sequence {
   public:
    explicit Sequence(CallsInFlight& calls) : calls_(calls) { ++calls_.count_; }
    ~Sequence() {
      --calls_.count_;
      calls_.change_.notify_all();
    }
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;

   private:
    CallsInFlight& calls_;
  };

  bool any() const { return count_ > 0; }
  // Waits until fewer sequences are in flight than now.
  void wait_for_one(DeviceLock& lock) {
    const size_t seen = count_;
    wait(change_, lock, [&] { return count_ < seen; });
  }
  void wait_for_all(DeviceLock& lock) {
    wait(change_, lock, [this] { return count_ == 0; });
  }
  // For a forked child, where the threads that made the calls do not exist.
  void forget_all() {
    count_ = 0;
    become_unused(change_);
  }

 private:
  size_t count_ = 0;
  std::condition_variable_any change_;
};

}  // namespace tidepool
