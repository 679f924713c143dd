// What `torch.Tensor.data_ptr` is in a job: a method in C, because launchers of kernels call it for
// each argument. Python's own functions and types are passed in, so that one binary serves every
// Python.
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>

#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "bindings/torch/base/devices.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/plugin/api.h"
#include "bindings/torch/storage/gradients.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/locked_storage.h"

using namespace tidepool;
using namespace tidepool::torch_glue;

namespace {

using Place = std::pair<void*, int>;  // a code object, and an instruction of it

tidepool_python_tensors g_python = {};

// Whether places of the job that ask for addresses may keep them. Guarded by the GIL.
absl::flat_hash_map<Place, bool>& keeping_places() {
  static auto* const places = new absl::flat_hash_map<Place, bool>;
  return *places;
}

// Whether the code that asks, in this frame of Python's or in none, may keep the address. nullopt:
// it is not known yet.
std::optional<bool> may_keep(void* frame) {
  if (frame == nullptr) return true;
  void* const code = g_python.code_of(frame);  // lives as long as its frame
  g_python.drop(code);
  const auto found = keeping_places().find(Place{code, g_python.instruction_of(frame)});
  if (found == keeping_places().end()) return std::nullopt;
  return found->second;
}

void* field(void* object, size_t offset) {
  void* found = nullptr;
  std::memcpy(&found, static_cast<char*>(object) + offset, sizeof found);
  return found;
}

// The contents can be marked without a wait or a restoration, which must not be begun by a thread
// that holds Python's lock: an operator that runs again may need that lock on another thread.
bool can_mark_at_once(const remat::Storage& storage) {
  if (storage.evicted || storage.dead || storage.current->uses > 0) return false;
  if (storage.current->hidden_use.epoch > 0) return false;  // the device may be waited for
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
  // Python may collect garbage in this call, and so wait for the device's lock.
  void* const frame = parameter ? nullptr : g_python.frame();
  remat::Runtime& runtime = engine->runtime();
  DeviceLock lock(engine->mutex());
  remat::Storage* const tracked = find_tracked(*engine, storage, remat::RootReason::kUntracked);
  if (tracked == nullptr) return false;
  if (tracked->escaped_for_good() && !parameter) return true;
  const std::optional<bool> keeps = parameter ? false : may_keep(frame);
  if (!keeps || !can_mark_at_once(*tracked)) return false;
  const remat::LockedStorage locked(runtime, tracked);
  hand_out_address(runtime, tracked, *keeps, lock);
  return true;
}

// A compiled graph asks, to launch its kernels: what it reads stays where it is until it returns,
// the rest is its own, and it keeps no address. Its thread is switched off meanwhile, as no other
// operator's is (bindings/python/tidepool/hooks/_compiled_calls.py).
bool in_compiled_graph() {
  return c10::impl::tls_local_dispatch_key_set().excluded_.has(kInterceptionKey) &&
         !is_thread_intercepted();
}

// Whether the job has the next question pass over its override, which PyTorch's own way answers.
bool passes_over() {
#if TIDEPOOL_TORCH_MINOR >= 15
  return at::impl::PythonTorchFunctionTLS::peek_skip_next();
#else
  return false;
#endif
}

void* data_ptr(void* self, void*) {
  void* const type = field(self, g_python.type_offset);
  auto* const tensor = static_cast<c10::TensorImpl*>(field(self, g_python.impl_offset));
  const bool plain = type == g_python.tensor_type || type == g_python.parameter_type;
  try {
    if (plain && tensor != nullptr && engines_installed() &&
        !at::impl::torch_function_mode_enabled() && !passes_over() &&
        (in_compiled_graph() || mark_at_once(tensor))) {
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

void tidepool_address_place(void* code, int instruction, int keeps) {
  keeping_places()[Place{code, instruction}] = keeps != 0;
}
