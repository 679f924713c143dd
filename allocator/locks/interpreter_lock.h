// InterpreterLock: the global lock of an interpreter in the process, Python's, which a thread may
// have while it waits for one of ours. Whoever holds ours may need it: PyTorch takes it to count
// the references of what Python knows. As long as a thread says so (Wanted), those that wait let
// go of it now and then; at other times they do not, because the job's code relies on having it,
// and may hold locks of its own. Without an interpreter there is nothing to let go of.
#pragma once

#include <atomic>
#include <cstdint>

namespace tidepool {

class InterpreterLock {
 public:
  // How the lock of the process's interpreter is used.
  struct Functions {
    bool (*is_held)();      // by the calling thread
    void (*let_go_once)();  // of what it holds: others get it, and it takes it back
  };
  // Called once. Thread safe.
  static void set(const Functions& functions) { functions_.store(&functions); }

  // While it lives, the calling thread, which may hold one of our locks, may wait for the
  // interpreter's. Thread safe.
  class Wanted {
   public:
    Wanted() { wanted_.fetch_add(1); }
    ~Wanted() { wanted_.fetch_sub(1); }
    Wanted(const Wanted&) = delete;
    Wanted& operator=(const Wanted&) = delete;
  };
  static bool is_wanted() { return wanted_.load() > 0; }

  static bool is_held() {
    const Functions* const functions = functions_.load(std::memory_order_acquire);
    return functions != nullptr && functions->is_held();
  }
  // Requires: is_held(), and that none of our locks is held.
  static void let_go_once() { functions_.load(std::memory_order_acquire)->let_go_once(); }

 private:
  static constinit inline std::atomic<const Functions*> functions_{nullptr};
  static constinit inline std::atomic<uint32_t> wanted_{0};
};

}  // namespace tidepool
