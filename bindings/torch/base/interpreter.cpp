#include "bindings/torch/base/interpreter.h"

#include <dlfcn.h>

namespace tidepool::torch_glue {

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

}  // namespace tidepool::torch_glue
