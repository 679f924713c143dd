#include "bindings/torch/intercept/gradient_streams.h"

#include <torch/csrc/autograd/input_buffer.h>

#include <vector>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/intercept/operands/tensor_components.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/locked_storage.h"

namespace tidepool::torch_glue {
namespace {

class HeldGradients {
 public:
  void add(const at::Tensor& gradient) {
    if (!gradient.defined()) return;
    c10::TensorImpl* const tensor = gradient.unsafeGetTensorImpl();
    if (c10::StorageImpl* storage = storage_of(tensor); storage != nullptr) hold(storage);
    for (const at::Tensor& component : components_of(tensor)) add(component);
  }

 private:
  void hold(c10::StorageImpl* storage) {
    Engine* const engine = engine_of(storage);
    if (engine == nullptr) return;
    try {
      DeviceLock lock(engine->mutex());
      remat::Storage* tracked = find_tracked(*engine, storage);
      if (tracked == nullptr) return;
      remat::LockedStorage locked(engine->runtime(), tracked);
      engine->runtime().make_resident({&tracked, 1}, lock);
      held_.emplace_back(std::move(locked));
    } catch (const OutOfMemory&) {
      rethrow_as_torch_error(*engine);
    }
  }

  std::vector<remat::HeldStorage> held_;
};

}  // namespace

void add_gradient(torch::autograd::InputBuffer* waiting, size_t index, at::Tensor&& gradient,
                  const std::optional<c10::Stream>& made_on,
                  const std::optional<c10::Stream>& needed_on, torch::autograd::Node* node) {
  HeldGradients held;
  const bool summed = index < waiting->buffer.size() && waiting->buffer[index].defined();
  const bool one_stream =
      made_on == needed_on && (!summed || (waiting->opt_accum_streams[index] == made_on &&
                                           waiting->ready_streams[index] == made_on));
  if (!one_stream) {
    held.add(gradient);
    if (summed) held.add(waiting->buffer[index]);
  }
  waiting->add(index, std::move(gradient), made_on, needed_on, node);
}

}  // namespace tidepool::torch_glue
