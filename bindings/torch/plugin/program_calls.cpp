// What the C interface has for programs without Python, around calls of LibTorch's.
#include <ATen/core/TensorBase.h>
#include <c10/util/Exception.h>

#include <string>
#include <vector>

#include "allocator/base/per_thread.h"
#include "bindings/torch/base/replaying.h"
#include "bindings/torch/plugin/api.h"
#include "bindings/torch/plugin/c_results.h"
#include "bindings/torch/storage/storage_access.h"

namespace {

struct ThreadState {
  std::vector<void*> kept, settled;  // of each reader, and of each switch, that it is in
  std::string message = std::string(size_t{1} << 16, '\0');
};

ThreadState& of_this_thread() { return tidepool::PerThread<ThreadState>::get(); }

// Calls a function that takes room for a message at its end, and throws what it says.
template <class Function, class... Arguments>
void call_or_throw(Function function, Arguments... arguments) {
  std::string& message = of_this_thread().message;
  const int code = function(arguments..., message.data(), message.size());
  if (code == tidepool::torch_glue::kOutOfMemory) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, message.c_str());
  }
  TORCH_CHECK(code == 0, message.c_str());
}

}  // namespace

void tidepool_enter_reader() {
  void* kept = nullptr;
  call_or_throw(&tidepool_begin_keeping, &kept);
  of_this_thread().kept.push_back(kept);
}

void tidepool_leave_reader() {
  std::vector<void*>& kept = of_this_thread().kept;
  tidepool_end_keeping(kept.back());
  kept.pop_back();
}

// A replay sets the switches that its operator ran under, and sets them back.
void tidepool_enter_switch() {
  if (tidepool::torch_glue::is_replaying()) return;
  void* begun = nullptr;
  call_or_throw(&tidepool_begin_settling, &begun);
  of_this_thread().settled.push_back(begun);
}

void tidepool_leave_switch() {
  if (tidepool::torch_glue::is_replaying()) return;
  std::vector<void*>& settled = of_this_thread().settled;
  tidepool_end_settling(settled.back());
  settled.pop_back();
}

void tidepool_take_address(void* tensor, int may_write) {
  const auto& base = *static_cast<const at::TensorBase*>(tensor);
  if (!base.defined()) return;
  void* storage = tidepool::torch_glue::storage_of(base.unsafeGetTensorImpl());
  if (storage == nullptr || tidepool_is_accessible(storage, may_write)) return;
  call_or_throw(may_write != 0 ? &tidepool_escape : &tidepool_written, storage);
}
