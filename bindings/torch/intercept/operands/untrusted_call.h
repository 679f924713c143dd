// UntrustedCall: a scope in which an operator runs of which nothing is known. Such an operator may
// run others on other threads, and hold raw pointers to their results and to memory of its own.
// Thread safe.
#pragma once

#include <atomic>

namespace tidepool::torch_glue {

class UntrustedCall {
 public:
  UntrustedCall() { running_.fetch_add(1, std::memory_order_relaxed); }
  ~UntrustedCall() { running_.fetch_sub(1, std::memory_order_relaxed); }
  UntrustedCall(const UntrustedCall&) = delete;
  UntrustedCall& operator=(const UntrustedCall&) = delete;
  static bool any() { return running_.load(std::memory_order_relaxed) > 0; }

 private:
  static inline std::atomic<int> running_{0};
};

// UntrustedHostCall: the same where all operands are the host's. What it makes on a device it makes
// by operators of this thread. Belongs to one thread.
class UntrustedHostCall {
 public:
  UntrustedHostCall() { ++depth_; }
  ~UntrustedHostCall() { --depth_; }
  UntrustedHostCall(const UntrustedHostCall&) = delete;
  UntrustedHostCall& operator=(const UntrustedHostCall&) = delete;
  static bool any() { return depth_ > 0; }  // of this thread

 private:
  static inline constinit thread_local int depth_ = 0;
};

}  // namespace tidepool::torch_glue
