#include "bindings/torch/base/interpreter.h"

#include <dlfcn.h>

namespace tidepool::torch_glue {
namespace {

template <typename Function>
Function python(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Tracing: Python's own functions that it takes to switch torch.compile's hook for frames.
class Tracing {
 public:
  // nullptr: there is no Python, or none with PyTorch's module.
  static const Tracing* get() {
    static const Tracing* const tracing = [] {
      auto* const made = new Tracing;
      return made->find() ? made : nullptr;
    }();
    return tracing;
  }

  // Sets the hook; returns the one before, nullptr if that cannot be.
  void* set(void* hook) const { return call_(switch_, hook); }
  void* none() const { return none_; }
  void drop(void* object) const { drop_(object); }
  int lock() const { return lock_(); }
  void unlock(int state) const { unlock_(state); }

 private:
  bool find() {
    const auto import = python<void* (*)(const char*)>("PyImport_ImportModule");
    const auto attribute = python<void* (*)(void*, const char*)>("PyObject_GetAttrString");
    const auto clear = python<void (*)()>("PyErr_Clear");
    if (import == nullptr || none_ == nullptr) return false;
    const int state = lock_();
    switch_ = import("torch._C");
    for (const char* name : {"_dynamo", "eval_frame", "set_eval_frame"}) {
      if (switch_ != nullptr) switch_ = attribute(switch_, name);
    }
    clear();
    unlock_(state);
    return switch_ != nullptr;
  }

  int (*const lock_)() = python<int (*)()>("PyGILState_Ensure");
  void (*const unlock_)(int) = python<void (*)(int)>("PyGILState_Release");
  void* (*const call_)(void*, void*) = python<void* (*)(void*, void*)>("PyObject_CallOneArg");
  void (*const drop_)(void*) = python<void (*)(void*)>("Py_DecRef");
  void* const none_ = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
  void* switch_ = nullptr;
};

}  // namespace

void* leave_interpreter() {
  static const auto check = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  static const auto save = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyEval_SaveThread"));
  if (check == nullptr || save == nullptr || check() == 0) return nullptr;
  return save();
}

void enter_interpreter(void* token) {
  static const auto restore =
      reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "PyEval_RestoreThread"));
  if (token != nullptr) restore(token);
}

void* suspend_tracing() {
  const Tracing* const tracing = Tracing::get();
  if (tracing == nullptr) return nullptr;
  const int state = tracing->lock();
  void* before = tracing->set(tracing->none());
  if (before == tracing->none()) {
    tracing->drop(before);
    before = nullptr;
  }
  tracing->unlock(state);
  return before;
}

void resume_tracing(void* token) {
  if (token == nullptr) return;
  const Tracing* const tracing = Tracing::get();
  const int state = tracing->lock();
  tracing->drop(tracing->set(token));
  tracing->drop(token);
  tracing->unlock(state);
}

}  // namespace tidepool::torch_glue
