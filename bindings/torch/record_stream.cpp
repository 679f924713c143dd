#include "bindings/torch/record_stream.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "bindings/torch/engine.h"
#include "bindings/torch/interception.h"
#include "bindings/torch/storage_access.h"

namespace tidepool::torch_glue {
namespace {

// True if the tensor is evicted; the stream is noted then.
bool note_for_evicted(const at::Tensor& tensor, c10::Stream stream) {
  c10::StorageImpl* storage = storage_of(tensor.unsafeGetTensorImpl());
  Engine* engine = storage != nullptr ? engine_of(storage) : nullptr;
  if (engine == nullptr) return false;
  DeviceLock lock(engine->mutex());
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (data.get_deleter() != &delete_evicted) return false;
  auto* tracked = static_cast<remat::Storage*>(data.get_context());
  if (stream.device() == engine->device()) {
    const StreamId user = engine->backend().number_of(stream);
    engine->backend().remember_stream(*tracked, user);
    engine->runtime().note_use(*tracked, user);
    return true;
  }
  // Of another device: its memory must not move any more.
  engine->runtime().lock_storage(tracked);
  try {
    engine->runtime().make_resident({&tracked, 1}, lock);
  } catch (...) {
    engine->runtime().unlock_storage(tracked);
    throw;
  }
  tracked->fixed = true;
  engine->runtime().unlock_storage(tracked);
  return false;
}

void record_stream(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
  const c10::IValue& stream = (*stack)[stack->size() - 1];
  const c10::IValue& tensor = (*stack)[stack->size() - 2];
  if (note_for_evicted(tensor.toTensor(), stream.toStream())) {
    torch::jit::drop(*stack, 2);
    return;
  }
  BelowInterception below;
  op.redispatchBoxed(keys & kBelowInterception, stack);
}

}  // namespace

void register_record_stream(std::vector<c10::RegistrationHandleRAII>& handles) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  handles.push_back(dispatcher.registerImpl(
      {"aten::record_stream", ""}, kInterceptionKey,
      c10::KernelFunction::makeFromBoxedFunction<&record_stream>(), std::nullopt, nullptr,
      "tidepool"));
}

}  // namespace tidepool::torch_glue
