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

// Adds the storages that a gradient consists of, if there is one.
void add_storages(const at::Tensor& gradient, std::vector<c10::StorageImpl*>& storages) {
  if (!gradient.defined()) return;
  c10::TensorImpl* const tensor = gradient.unsafeGetTensorImpl();
  storages.push_back(storage_of(tensor));
  for (const at::Tensor& component : components_of(tensor)) add_storages(component, storages);
}

}  // namespace

void add_gradient(torch::autograd::InputBuffer* waiting, size_t index, at::Tensor&& gradient,
                  const std::optional<c10::Stream>& made_on,
                  const std::optional<c10::Stream>& needed_on, torch::autograd::Node* node) {
  std::vector<remat::HeldStorage> held;
  const bool summed = index < waiting->buffer.size() && waiting->buffer[index].defined();
  const bool one_stream =
      made_on == needed_on && (!summed || (waiting->opt_accum_streams[index] == made_on &&
                                           waiting->ready_streams[index] == made_on));
  if (!one_stream) {
    std::vector<c10::StorageImpl*> storages;
    add_storages(gradient, storages);
    if (summed) add_storages(waiting->buffer[index], storages);
    for_each_engine([&](Engine& engine) {
      try {
        hold_on(engine, storages, held);
      } catch (const OutOfMemory&) {
        rethrow_as_torch_error(engine);
      }
    });
  }
  waiting->add(index, std::move(gradient), made_on, needed_on, node);
}

}  // namespace tidepool::torch_glue
