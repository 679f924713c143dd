#include "bindings/torch/intercept/operands/argument_tracking.h"

#include "bindings/torch/intercept/operands/call_arguments.h"
#include "bindings/torch/intercept/operands/region.h"
#include "bindings/torch/intercept/operands/tensor_components.h"
#include "bindings/torch/intercept/operands/untrusted_call.h"
#include "bindings/torch/storage/gradients.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch/storage/tripwire.h"

namespace tidepool::torch_glue {

constinit thread_local bool t_in_optimizer = false;

namespace {

// A leaf that requires a gradient, or a view of one (linear layers use their weight transposed).
bool is_parameter(c10::TensorImpl* impl) {
  if (!impl->requires_grad()) return false;
  const BorrowedTensor borrowed(impl);
  const at::Tensor& tensor = *borrowed;
  return tensor.is_leaf() || (tensor.is_view() && tensor._base().is_leaf());
}

// Adds the storages that a tensor consists of, if it is defined.
void add_storages(const at::Tensor& tensor, std::vector<c10::StorageImpl*>& storages) {
  if (!tensor.defined()) return;
  storages.push_back(storage_of(tensor.unsafeGetTensorImpl()));
  for (const at::Tensor& component : components_of(tensor.unsafeGetTensorImpl())) {
    add_storages(component, storages);
  }
}

// What the storage of a tensor that is tracked for the first time is to the job. Contents that are
// read before any operator has written them came from outside.
remat::Role role_of(c10::TensorImpl* tensor, bool written) {
  if (is_parameter(tensor)) return remat::Role::kParameter;
  if (t_in_optimizer) return remat::Role::kOptimizerState;
  return written ? remat::Role::kOther : remat::Role::kInput;
}

// The bytes may have moved to another StorageImpl (a swap): their identity goes with them.
void follow_swap(remat::Storage& tracked, c10::StorageImpl* storage) {
  hold_weakly(storage);
  drop_weak_hold(static_cast<c10::StorageImpl*>(tracked.framework_storage));
  tracked.framework_storage = storage;
  tracked.unwatched = true;
}

}  // namespace

remat::Storage* track_argument(Engine& engine, c10::TensorImpl* tensor, bool written) {
  c10::StorageImpl* storage = storage_of(tensor);
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  remat::Runtime& runtime = engine.runtime();
  remat::Storage* found = nullptr;
  if (is_evicted(data)) {
    found = static_cast<remat::Storage*>(data.get_context());
  } else {
    found = runtime.find(data.get());
  }
  if (found == nullptr) {
    const remat::Role role = role_of(tensor, written);
    // Its contents were written through an address. (A parameter that was loaded is written once.)
    const bool escaped = tripwire::g_addresses_are_kept && role == remat::Role::kInput;
    const auto reason = escaped ? remat::RootReason::kEscaped : remat::RootReason::kUntracked;
    found = start_tracking(runtime, storage, reason);
    found->role = role;
    found->escaped = escaped;
    // Code that nobody vouches for likely knows where the memory is that it has made for itself:
    // c10d's checks of collectives have such tensors.
    found->fixed = UntrustedCall::any();
  } else if (found->framework_storage != storage) [[unlikely]] {
    follow_swap(*found, storage);
  }
  remat::Storage& tracked = *found;
  // A parameter's bytes may be older than the parameter.
  if (tracked.role != remat::Role::kParameter && tracked.current->producer == nullptr &&
      is_parameter(tensor)) {
    tracked.role = remat::Role::kParameter;
  }
  if (tracked.role == remat::Role::kParameter && tensor->requires_grad() &&
      runtime.threads() <= threads_of_one_job()) {
    note_parameter(tracked, tensor);
  }
  return found;
}

remat::Storage* track_result(Engine& engine, c10::TensorImpl* tensor, remat::RootReason reason) {
  if (tensor == nullptr || !is_supported(tensor)) return nullptr;
  c10::StorageImpl* const storage = storage_of(tensor);
  if (storage == nullptr) return nullptr;
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (!holds_block(data)) return nullptr;
  if (host_is_foreign() &&
      (engine_of(data.device()) != &engine || !engine.allocator().contains(data.get()))) {
    return nullptr;
  }
  if (tensor->unsafe_storage().use_count() != 1) return nullptr;
  remat::Storage* const tracked = start_tracking(engine.runtime(), storage, reason);
  if (tracked == nullptr) return nullptr;  // an alias
  // Kernels leave what they do not show as they found it, `mse_loss` of many numbers, for one.
  if (shown_bytes(tensor) < storage->nbytes() && tensor->storage_offset() == 0 &&
      tensor->is_non_overlapping_and_dense()) [[unlikely]] {
    remat::ContentCheck& check = engine.runtime().call_context().contents.residency.check;
    check.shows(*tracked->current, shown_bytes(tensor));
  }
  return tracked;
}

void track_results_elsewhere(std::span<c10::TensorImpl* const> results, const Engine* own) {
  if (UntrustedCall::any() || UntrustedHostCall::any() || in_region()) return;
  for (c10::TensorImpl* tensor : results) {
    if (tensor == nullptr || !is_supported(tensor)) continue;
    c10::StorageImpl* const storage = storage_of(tensor);
    if (storage == nullptr) continue;
    Engine* const engine = engine_of(storage->device());
    if (engine == nullptr || engine == own || engine->capturing()) continue;
    DeviceLock lock(engine->mutex());
    remat::Storage* const made = find_tracked(*engine, storage, remat::RootReason::kUntracked);
    if (made == nullptr || made->role != remat::Role::kOther) continue;
    made->role = role_of(tensor, false);
  }
}

remat::Storage* find_tracked(Engine& engine, c10::StorageImpl* storage, remat::RootReason reason) {
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (is_evicted(data)) return static_cast<remat::Storage*>(data.get_context());
  if (!holds_block(data)) return nullptr;
  if (!engine.allocator().contains(data.get())) return nullptr;  // of PyTorch's own pools
  remat::Storage* tracked = engine.runtime().find(data.get());
  if (tracked != nullptr || reason == remat::RootReason::kNone) return tracked;
  return start_tracking(engine.runtime(), storage, reason);
}

void hold_on(Engine& engine, std::span<c10::StorageImpl* const> storages,
             std::vector<remat::HeldStorage>& held) {
  remat::Runtime& runtime = engine.runtime();
  std::vector<remat::Storage*> tracked;
  DeviceLock lock(engine.mutex());
  std::vector<remat::LockedStorage> locked;
  for (c10::StorageImpl* storage : storages) {
    if (storage == nullptr || engine_of(storage) != &engine) continue;
    remat::Storage* found = find_tracked(engine, storage);
    if (found == nullptr) continue;
    locked.emplace_back(runtime, found);
    tracked.push_back(found);
  }
  runtime.make_resident(tracked, lock);
  for (remat::LockedStorage& each : locked) held.emplace_back(std::move(each));
}

std::vector<remat::HeldStorage> hold_tensors(std::span<const at::Tensor> tensors) {
  std::vector<c10::StorageImpl*> storages;
  for (const at::Tensor& tensor : tensors) add_storages(tensor, storages);
  std::vector<remat::HeldStorage> held;
  for_each_engine([&](Engine& engine) {
    try {
      hold_on(engine, storages, held);
    } catch (const OutOfMemory&) {
      rethrow_as_torch_error(engine);
    }
  });
  return held;
}

}  // namespace tidepool::torch_glue
