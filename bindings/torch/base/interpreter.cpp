#include "bindings/torch/base/interpreter.h"

#include <dlfcn.h>
#include <sys/types.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <utility>

#include "allocator/locks/interpreter_lock.h"

namespace tidepool::torch_glue {
namespace {

template <typename Function>
Function python(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Tracing: Python's own functions that it takes to switch torch.compile's hook for frames. Its
// methods but exists() and lock() require Python's global lock.
class Tracing {
 public:
  static const Tracing& get() {
    static const Tracing tracing;  // made without the lock, for which another thread may wait here
    return tracing;
  }

  bool exists() const { return none_ != nullptr; }
  int lock() const { return lock_(); }
  void unlock(int state) const { unlock_(state); }
  void drop(void* object) const { drop_(object); }
  void* none() const { return none_; }
  // Sets the hook; returns the one before, nullptr if there is no such hook.
  void* set(void* hook) const {
    static void* function = nullptr;  // guarded by the lock, which others may get during a search
    if (function == nullptr) function = find();
    return function != nullptr ? call_(function, hook) : nullptr;
  }

 private:
  void* find() const {
    const auto import = python<void* (*)(const char*)>("PyImport_ImportModule");
    const auto attribute = python<void* (*)(void*, const char*)>("PyObject_GetAttrString");
    void* found = import("torch._C");
    for (const char* name : {"_dynamo", "eval_frame", "set_eval_frame"}) {
      if (found != nullptr) found = attribute(found, name);
    }
    if (found == nullptr) python<void (*)()>("PyErr_Clear")();
    return found;
  }

  int (*const lock_)() = python<int (*)()>("PyGILState_Ensure");
  void (*const unlock_)(int) = python<void (*)(int)>("PyGILState_Release");
  void* (*const call_)(void*, void*) = python<void* (*)(void*, void*)>("PyObject_CallOneArg");
  void (*const drop_)(void*) = python<void (*)(void*)>("Py_DecRef");
  void* const none_ = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
};

}  // namespace

namespace {

// A function that has had another name in older versions.
template <typename Function>
Function python(const char* name, const char* older) {
  const auto found = python<Function>(name);
  return found != nullptr ? found : python<Function>(older);
}

// Whether the calling thread has Python's lock, and would get it back: at the end of the process
// only the thread that ends it does. PyGILState_Check() says yes to every thread once there has
// been a second interpreter.
bool may_leave() {
  static const auto is_initialized = python<int (*)()>("Py_IsInitialized");
  static const auto own = python<void* (*)()>("PyGILState_GetThisThreadState");
  static const auto current =
      python<void* (*)()>("PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet");
  static const auto is_finalizing = python<int (*)()>("Py_IsFinalizing", "_Py_IsFinalizing");
  if (is_initialized == nullptr || own == nullptr || current == nullptr) return false;
  if (is_initialized() == 0) return false;
  const void* const state = own();
  if (state == nullptr || state != current()) return false;
  return is_finalizing == nullptr || is_finalizing() == 0;
}

}  // namespace

void* leave_interpreter() {
  static const auto save = python<void* (*)()>("PyEval_SaveThread");
  return may_leave() ? save() : nullptr;
}

void enter_interpreter(void* token) {
  static const auto restore = python<void (*)(void*)>("PyEval_RestoreThread");
  if (token != nullptr) restore(token);
}

void keep_no_interpreter_waiting() {
  static constexpr InterpreterLock::Functions kFunctions{
      &may_leave, [] { enter_interpreter(leave_interpreter()); }};
  InterpreterLock::set(kFunctions);
}

void* suspend_tracing() {
  const Tracing& tracing = Tracing::get();
  if (!tracing.exists()) return nullptr;
  const int state = tracing.lock();
  void* before = tracing.set(tracing.none());
  if (before == tracing.none()) {
    tracing.drop(before);
    before = nullptr;
  }
  tracing.unlock(state);
  return before;
}

void resume_tracing(void* token) {
  if (token == nullptr) return;
  const Tracing& tracing = Tracing::get();
  const int state = tracing.lock();
  tracing.drop(tracing.set(token));
  tracing.drop(token);
  tracing.unlock(state);
}

namespace {

constinit thread_local uint32_t t_scopes = 0;
constinit thread_local uint64_t t_deferred = 0;  // a bit for each signal, from 1

// Python's collector, and how many threads keep it off. All require Python's global lock.
class Collector {
 public:
  static Collector& get() {
    static Collector collector;
    return collector;
  }

  void pause() {
    if (threads_++ > 0) return;
    was_on_ = disable_() != 0;
    since_ = std::chrono::steady_clock::now();
  }
  void resume(bool may_collect) {
    const bool is_last = --threads_ == 0;
    if (!was_on_) return;
    if (is_last) {
      enable_();
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!may_collect || now - since_ < std::chrono::seconds(1)) return;
    since_ = now;
    enable_();
    collect_();
    if (threads_ > 0) disable_();
  }
  void become_forked_child(bool is_paused) {
    if (threads_ > 0 && !is_paused && was_on_) enable_();
    threads_ = is_paused ? 1 : 0;
  }

 private:
  int (*const disable_)() = python<int (*)()>("PyGC_Disable");
  int (*const enable_)() = python<int (*)()>("PyGC_Enable");
  ssize_t (*const collect_)() = python<ssize_t (*)()>("PyGC_Collect");
  int threads_ = 0;
  bool was_on_ = false;
  std::chrono::steady_clock::time_point since_;
};

// Tells Python of signals again. Requires: the main thread.
void tell_again(uint64_t signals) {
  static const auto interrupt = python<int (*)(int)>("PyErr_SetInterruptEx");
  for (; signals != 0; signals &= signals - 1) interrupt(std::countr_zero(signals) + 1);
}

}  // namespace

void Undisturbed::begin() {
  const Tracing& tracing = Tracing::get();
  if (!tracing.exists() || t_scopes++ > 0) return;
  const int state = tracing.lock();
  Collector::get().pause();
  tracing.unlock(state);
}

void Undisturbed::end(bool in_job) {
  if (t_scopes == 0 || --t_scopes > 0) return;
  const Tracing& tracing = Tracing::get();
  const int state = tracing.lock();
  Collector::get().resume(in_job);
  if (t_deferred != 0) tell_again(std::exchange(t_deferred, 0));
  tracing.unlock(state);
}

void Undisturbed::become_forked_child() {
  t_deferred = 0;
  Collector::get().become_forked_child(t_scopes > 0);
}

bool Undisturbed::defer_signal(int number) {
  if (t_scopes == 0 || number < 1 || number > 64) return false;
  t_deferred |= uint64_t{1} << (number - 1);
  return true;
}

}  // namespace tidepool::torch_glue
