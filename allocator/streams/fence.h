// Fence: the interface to work that still uses memory: a fence has passed once the work before it
// is done. Implementations are thread safe. passed() is cheap and never blocks; wait() blocks until
// the fence has passed.
#pragma once

#include <condition_variable>
#include <mutex>

namespace tidepool {

class Fence {
 public:
  virtual ~Fence() = default;
  // Once this is true, it stays true.
  virtual bool passed() = 0;
  virtual void wait() = 0;
};

// HostFence: a fence that passes when a host thread says so.
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

}  // namespace tidepool
