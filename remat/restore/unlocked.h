// Unlocked: releases the device's lock for a scope, in which operators run or bytes are copied, and
// takes it again whichever way the scope ends.
#pragma once

#include "allocator/base/device_mutex.h"

namespace tidepool::remat {

class Unlocked {
 public:
  explicit Unlocked(DeviceLock& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  DeviceLock& lock_;
};

}  // namespace tidepool::remat
