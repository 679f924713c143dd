// HostFence: a fence that is passed when a host thread says so. Thread safe.
#pragma once

#include <condition_variable>
#include <mutex>

#include "allocator/streams/fence.h"

namespace tidepool::test {

class HostFence final : public Fence {
 public:
  bool passed() override {
    std::lock_guard lock(mutex_);
    return passed_;
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    change_.wait(lock, [this] { return passed_; });
  }
  void pass() {
    std::lock_guard lock(mutex_);
    passed_ = true;
    change_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  bool passed_ = false;
};

}  // namespace tidepool::test
