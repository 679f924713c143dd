// Interception: our kernels on the dispatch key kInterceptionKey, for every operator, and the
// per-thread switch that makes the dispatcher visit them.
// Registered once, for the life of the process. Thread safe.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tidepool::torch_glue {

// Throws: std::runtime_error if PyTorch, or an extension, uses the key already.
void check_interception_is_possible();

// Registers the boxed fallback, direct kernels where a composite kernel would win over it, typed
// wrappers for hot operators, and fallthrough for metadata operators; and listens for operators
// that are defined later.
void install_interception();

// Registers operators that were defined since. Cheap when there are none. Takes the dispatcher's
// lock: must not be called from within an operator's registration.
void rescan_operators();

// Switches interception on or off for the calling thread; returns the previous state.
bool set_thread_intercepted(bool on);
bool is_thread_intercepted();

// A kernel of the operators called `name` ("aten::add", or "aten::add.out" for one overload) is
// about to be replaced, or was: nobody vouches for them from now on, and where a kernel for the
// device has come to a composition of others, that kernel runs. Thread safe.
void distrust_operators(std::string_view name);

// Called where a thread allocates. If it is not intercepted, and it is neither a worker of a kernel
// nor switched off by set_thread_intercepted(), then it works on tensors unseen: says so on stderr,
// once, and stops eviction for good, with everything restored. (A thread that only frees computes
// nothing.) Throws: OutOfMemory if what is evicted does not fit.
void notice_thread();

// True for an operator that is only a composition of others, which are seen in its place.
bool is_composite_only(const c10::OperatorHandle& op);

// True while recording is off and there is no lineage: nothing can be evicted and nothing depends
// on what is written, so operators pass through without being looked at.
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

// True if operators were defined that rescan_operators() has not seen yet.
extern std::atomic<bool> g_operators_pending;

}  // namespace tidepool::torch_glue
