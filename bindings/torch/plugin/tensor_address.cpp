// What `torch.Tensor.data_ptr` is in a job: a method in C, because launchers of kernels call it for
// each argument. Python's own functions and types are passed in, so that one binary serves every
// Python.
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>

#include <cstring>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/plugin/api.h"
#include "bindings/torch/storage/gradients.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/locked_storage.h"

using namespace tidepool;
using namespace tidepool::torch_glue;

namespace {

tidepool_python_tensors g_python = {};

void* field(void* object, size_t offset) {
  void* found = nullptr;
  std::memcpy(&found, static_cast<char*>(object) + offset, sizeof found);
  return found;
}

// The contents can be marked without a wait or a restoration, which must not be begun by a thread
// that holds Python's lock: an operator that runs again may need that lock on another thread.
bool can_mark_at_once(const remat::Storage& storage) {
  if (storage.evicted || storage.dead || storage.current->uses > 0) return false;
  return storage.current->producer != nullptr || storage.current->consumers == nullptr;
}

bool mark_at_once(c10::TensorImpl* tensor) {
  c10::StorageImpl* const storage = storage_of(tensor);
  Engine* const engine = storage == nullptr ? nullptr : engine_of(storage);
  if (engine == nullptr) return false;
  const BorrowedTensor borrowed(tensor);
  // Of parameters it is asked for to compare them (tied weights), and all that is computed from an
  // escaped tensor must stay: only their address is fixed.
  const bool parameter = tensor->requires_grad() && (*borrowed).is_leaf();
  remat::Runtime& runtime = engine->runtime();
  DeviceLock lock(engine->mutex());
  remat::Storage* const tracked = find_tracked(*engine, storage, remat::RootReason::kUntracked);
  if (tracked == nullptr) return false;
  if (tracked->escaped_for_good() && !parameter) return true;
  if (!can_mark_at_once(*tracked)) return false;
  const remat::LockedStorage locked(runtime, tracked);
  hand_out_address(runtime, tracked, !parameter, lock);
  return true;
}

void* data_ptr(void* self, void*) {
  void* const type = field(self, g_python.type_offset);
  auto* const tensor = static_cast<c10::TensorImpl*>(field(self, g_python.impl_offset));
  const bool plain = type == g_python.tensor_type || type == g_python.parameter_type;
  try {
    if (plain && tensor != nullptr && engines_installed() &&
        !at::impl::torch_function_mode_enabled() && mark_at_once(tensor)) {
      return g_python.integer_of(tensor->mutable_data());
    }
  } catch (const std::exception&) {  // what it is comes out of the other way
  }
  return g_python.call(g_python.otherwise, self);
}

}  // namespace

tidepool_python_method tidepool_data_ptr_method(const tidepool_python_tensors* python) {
  g_python = *python;
  return &data_ptr;
}
