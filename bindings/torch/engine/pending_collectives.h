// PendingCollectives: what collectives go on using after they have returned. Threads of a process
// group read and write these storages by address until the future of the c10d::Work that the
// collective has returned is completed. Until then they have escaped, so that they neither leave
// nor move, and nothing that is computed from them can be made again; after it they are like other
// contents that no operator has made. Where the work has no future, and where that ends in an
// error, they stay for good; works without one need not ever say that they are completed. Only for
// the CPU: on a GPU the work of collectives that are started together says that it is completed
// before it has begun. Thread safe.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "allocator/locks/device_mutex.h"
#include "allocator/locks/mutex.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue {

class Engine;

// The storages that one collective uses. Not thread safe.
class CollectiveUses {
 public:
  CollectiveUses() = default;
  CollectiveUses(CollectiveUses&&) = default;
  CollectiveUses& operator=(CollectiveUses&&) = default;
  ~CollectiveUses();

  // Requires: the device's lock is held.
  void add(remat::Storage& storage);
  // Says that they are not used any more. Takes the device's lock.
  void end(Engine& engine);
  bool empty() const { return uses_.empty(); }

 private:
  struct Use {
    c10::StorageImpl* storage;  // held weakly
    const remat::Storage* tracked;
  };
  std::vector<Use> uses_;
};

class PendingCollectives {
 public:
  // Those of the process.
  static PendingCollectives& instance();
  static bool any() { return any_.load(std::memory_order_relaxed); }

  // Remembers what is used until the future is completed.
  void add(Engine& engine, c10::intrusive_ptr<c10::ivalue::Future> future, CollectiveUses&& uses);
  // Ends the uses of collectives that are completed by now. Requires: the thread holds no lock of
  // ours.
  void end_completed();

  // The handlers for pthread_atfork(). In a child no collective of the parent ever ends: nobody
  // works on them there.
  void before_fork() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void after_fork_in_parent() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
  void become_forked_child() ABSL_NO_THREAD_SAFETY_ANALYSIS;

 private:
  // More are not remembered, and what they use stays.
  static constexpr size_t kMost = 4096;

  struct Entry {
    Engine* engine;
    c10::intrusive_ptr<c10::ivalue::Future> future;  // the work itself would hold its tensors
    CollectiveUses uses;
  };

  static inline std::atomic<bool> any_{false};
  Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

// What an intercepted call is as a collective. On the stack of one thread.
class CollectiveCall {
 public:
  void begin() { started_before_ = t_started; }
  // The collective will use an operand. Requires: the operand is locked.
  void use(remat::Runtime& runtime, remat::Storage& storage, DeviceLock& lock);
  // The collective has returned `work`, a c10d::Work. Requires: the device's lock is not held.
  void returned(Engine& engine, const c10::IValue& work);
  // Whether any collective has returned one on this thread since begin().
  bool has_started_any() const { return t_started != started_before_; }

 private:
  static inline constinit thread_local uint64_t t_started = 0;

  uint64_t started_before_ = 0;
  CollectiveUses uses_;
};

}  // namespace tidepool::torch_glue
