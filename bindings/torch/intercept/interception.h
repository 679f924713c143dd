// Interception: our kernels for every operator on the dispatch key kInterceptionKey, and the switch
// by which a thread has the dispatcher call them.
// Registered once, for the life of the process. Thread safe.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "bindings/torch/base/devices.h"

namespace tidepool::torch_glue {

// Throws: std::runtime_error if PyTorch, or an extension, uses the key already.
void check_interception_is_possible();

// Registers the boxed fallback, kernels for operators whose composite kernel would win over it,
// typed wrappers for hot operators, and fallthrough for metadata operators. Listens for operators
// that are defined later.
void install_interception();

// Registers operators that were defined since. Cheap when there are none. Takes the dispatcher's
// lock: must not be called from within an operator's registration. `drop_gone`: lets go of those
// that were taken away, too. Not as a process ends: LibTorch takes its own away then, and what
// destructors compute still needs them.
void rescan_operators(bool drop_gone = false);

// Switches interception on or off for the calling thread; returns the previous state.
bool set_thread_intercepted(bool on);

// Says that a kernel of the operators called `name` ("aten::add", or "aten::add.out" for one
// overload) is about to be replaced, or was. They are not trusted from now on, and if a composition
// of others has got a kernel for the device, that kernel runs. Thread safe.
void distrust_operators(std::string_view name);

// Is called when a thread allocates. A thread that is not intercepted works on tensors unseen,
// unless it is a worker of a kernel, replays, or was switched off by set_thread_intercepted(). Then
// this says so on stderr, once, restores everything, and stops evictions for good. (A thread that
// only frees computes nothing.) Throws: OutOfMemory if what is evicted does not fit.
void notice_thread();

// Whether an operator is only a composition of others, which are seen in its place.
bool is_composite_only(const c10::OperatorHandle& op);

// True while recording is off and there is no lineage. Then nothing can be evicted, and nothing
// depends on what is written, so that operators pass through without being looked at.
extern std::atomic<bool> g_passive;

// Switches recording of lineage. Requires: no operator is running on another thread.
void set_recording(bool on);

// Keeps the interception key out of dispatch while a kernel runs.
class BelowInterception {
 public:
  BelowInterception();
  ~BelowInterception();
  BelowInterception(const BelowInterception&) = delete;
  BelowInterception& operator=(const BelowInterception&) = delete;

 private:
  uint64_t* excluded_;
  uint64_t before_;
};

// Whether the calling thread is in such a scope, or runs an operator again.
inline bool is_below_interception() {
  return c10::impl::tls_local_dispatch_key_set().excluded_.has(kInterceptionKey);
}

// Whether operators were defined that rescan_operators() has not seen yet.
extern std::atomic<bool> g_operators_pending;

}  // namespace tidepool::torch_glue
