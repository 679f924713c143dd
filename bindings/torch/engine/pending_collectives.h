// PendingCollectives: what collectives go on using after they have returned. Until they do not any
// more, these storages have escaped, so that they neither leave nor move, and nothing that is
// computed from them can be made again; after it they are like other contents that no operator has
// made. Where nobody knows, they stay for good. Thread safe.
//
// On the CPU, threads of a process group read and write them by address until the future of the
// c10d::Work that the collective has returned is completed. Where the work has no future, and where
// that ends in an error, they stay; works without one need not ever say that they are completed.
//
// On a GPU, NCCL's kernels use them on a stream of its own. The future is completed as soon as they
// are launched, and has streams wait for them; a stream that waits for nothing else is recorded for
// the storages. But who waits for the future, while anybody holds it, asks for their addresses once
// more: they stay until it is dropped, with its work. So do those of collectives that are started
// together, as their works are completed before they have begun; of other backends than NCCL; and
// what is called while a graph is captured.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "allocator/locks/device_mutex.h"
#include "allocator/locks/mutex.h"
#include "allocator/streams/stream_clocks.h"
#include "bindings/torch/base/nccl_groups.h"
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
  // Says that the stream uses them, too. Takes the device's lock.
  void record_stream(Engine& engine, StreamId user);
  bool empty() const { return uses_.empty(); }

 private:
  struct Use {
    c10::StorageImpl* storage;  // held weakly
    const remat::Storage* tracked;

    // Nullptr: it has other bytes by now, or none. Requires: the device's lock is held.
    remat::Storage* find(Engine& engine) const;
  };
  std::vector<Use> uses_;
};

class PendingCollectives {
 public:
  // Those of the process.
  static PendingCollectives& instance();
  static bool any() { return any_.load(std::memory_order_relaxed); }

  // What tells that a collective uses its storages no more.
  enum class End {
    kCompleted,  // its future is completed
    kDropped,    // nobody else holds the future
  };

  // Remembers what is used until then.
  void add(Engine& engine, c10::intrusive_ptr<c10::ivalue::Future> future, End end,
           CollectiveUses&& uses);
  // Ends the uses of collectives that have come to their ends, as far as it gets to see them: some
  // of them each time, in turn. Requires: the thread holds no lock of ours.
  void end_completed();

  // The handlers for pthread_atfork(). In a child no collective of the parent ever ends: nobody
  // works on them there.
  void before_fork() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void after_fork_in_parent() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
  void become_forked_child() ABSL_NO_THREAD_SAFETY_ANALYSIS;

 private:
  // More are not remembered, and what they use stays.
  static constexpr size_t kMost = 4096;
  static constexpr size_t kLookedAt = 64;  // at a time

  struct Entry {
    Engine* engine;
    c10::intrusive_ptr<c10::ivalue::Future> future;  // the work itself would hold its tensors
    End end;
    CollectiveUses uses;

    bool has_ended() const;
  };

  static inline std::atomic<bool> any_{false};
  Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

// What an intercepted call is as a collective. On the stack of one thread.
class CollectiveCall {
 public:
  CollectiveCall() = default;
  CollectiveCall(const CollectiveCall&) = delete;
  ~CollectiveCall() {
    if (is_one_) --t_running;
  }

  void begin() {
    started_before_ = t_started;
    nccl_calls_before_ = nccl_groups::t_calls;
  }
  // The collective will use an operand. Requires: the operand is locked.
  void use(remat::Runtime& runtime, remat::Storage& storage, DeviceLock& lock);
  // The collective has returned `work`, a c10d::Work. Requires: the device's lock is not held.
  void returned(Engine& engine, const c10::IValue& work);
  // Whether any collective has returned on this thread since begin().
  bool has_started_any() const { return t_started != started_before_; }
  // Whether the thread is inside of one.
  static bool is_running() { return t_running > 0; }

 private:
  static inline constinit thread_local uint64_t t_started = 0;
  static inline constinit thread_local uint32_t t_running = 0;

  // Whether NCCL has been called since begin(), and has launched what it was asked for.
  bool launched_by_nccl() const {
    return nccl_groups::t_calls != nccl_calls_before_ && nccl_groups::t_open == 0;
  }

  uint64_t started_before_ = 0;
  uint64_t nccl_calls_before_ = 0;
  CollectiveUses uses_;
  bool is_one_ = false;
};

}  // namespace tidepool::torch_glue
