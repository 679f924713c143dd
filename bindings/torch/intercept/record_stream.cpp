#include "bindings/torch/intercept/record_stream.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/locked_storage.h"

namespace tidepool::torch_glue {
namespace {

// True: the tensor is evicted, and the stream is noted. False: the tensor is held where it is, if
// it is ours.
bool note_for_evicted(const at::Tensor& tensor, c10::Stream stream, remat::HeldStorage& held) {
  c10::StorageImpl* storage = storage_of(tensor.unsafeGetTensorImpl());
  Engine* engine = storage != nullptr ? engine_of(storage) : nullptr;
  if (engine == nullptr) return false;
  DeviceLock lock(engine->mutex());
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (!is_evicted(data)) {
    const bool elsewhere = stream.device() != engine->device();
    remat::Storage* found =
        holds_block(data)
            ? find_tracked(*engine, storage,
                           elsewhere ? remat::RootReason::kUntracked : remat::RootReason::kNone)
            : nullptr;
    if (found != nullptr && elsewhere) found->fixed = true;
    if (found != nullptr) {
      held = remat::HeldStorage(remat::LockedStorage(engine->runtime(), found));
    }
    return false;
  }
  auto* tracked = static_cast<remat::Storage*>(data.get_context());
  if (stream.device() == engine->device()) {
    const StreamId user = engine->backend().number_of(stream);
    engine->backend().remember_stream(*tracked, user);
    // The tensor is being moved; what the stream does with its old bytes has to run before they go.
    void* const kept = tracked->current->kept;
    if (kept != nullptr) engine->allocator().record_stream_locked(kept, user);
    engine->runtime().note_use(*tracked, user);
    return true;
  }
  // The stream is another device's, so that the memory must not move any more.
  const remat::LockedStorage locked(engine->runtime(), tracked);
  engine->runtime().make_resident({&tracked, 1}, lock);
  tracked->fixed = true;
  return false;
}

void record_stream(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
  const c10::IValue& stream = (*stack)[stack->size() - 1];
  const c10::IValue& tensor = (*stack)[stack->size() - 2];
  remat::HeldStorage held;
  if (note_for_evicted(tensor.toTensor(), stream.toStream(), held)) {
    torch::jit::drop(*stack, 2);
    return;
  }
  BelowInterception below;
  op.redispatchBoxed(keys & kBelowInterception, stack);
}

}  // namespace

void register_record_stream(std::vector<c10::RegistrationHandleRAII>& handles) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  handles.push_back(
      dispatcher.registerImpl({"aten::record_stream", ""}, kInterceptionKey,
                              c10::KernelFunction::makeFromBoxedFunction<&record_stream>(),
                              std::nullopt, nullptr, "tidepool"));
}

}  // namespace tidepool::torch_glue
