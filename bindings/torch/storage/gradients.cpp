#include "bindings/torch/storage/gradients.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/storage/storage_access.h"

namespace tidepool::torch_glue {
namespace {

using torch::autograd::impl::try_get_grad_accumulator;

// References to nodes are counted in another way in each version of PyTorch.
template <typename Held>
struct WeakOf;
template <typename Node>
struct WeakOf<std::shared_ptr<Node>> {
  using Type = std::weak_ptr<Node>;
};
template <typename Node, typename Null>
struct WeakOf<c10::intrusive_ptr<Node, Null>> {
  using Type = c10::weak_intrusive_ptr<Node, Null>;
};
using HeldNode = decltype(try_get_grad_accumulator(std::declval<const at::Tensor&>()));
using Accumulator = WeakOf<HeldNode>::Type;

// Has the end of a backward pass, if one is under way on this thread, mark the gradients.
void mark_after_backward() {
  thread_local int last_pass = -1;
  const int pass = torch::autograd::get_current_graph_task_id();
  if (pass == last_pass || pass < 0) return;
  last_pass = pass;
  torch::autograd::Engine::get_default_engine().queue_callback(
      [] { g_runtimes.for_each([](remat::Runtime& runtime) { runtime.mark_gradients(); }); });
}

}  // namespace

namespace {

// Drops a reference to a node, weak or not, once the device's lock is released. It may be the last
// one: then a parameter ends with it, or what the node notes of its inputs (the sizes of a nested
// one are a tensor), whose bytes are freed, and for which Python's lock may be taken.
template <typename Reference>
void drop_later(const remat::Storage& parameter, Reference* held) {
  const c10::Device device = device_of(static_cast<c10::StorageImpl*>(parameter.framework_storage));
  g_runtimes.of(device)->mutex().drop_later(
      held, [](void* dropped) { delete static_cast<Reference*>(dropped); });
}

}  // namespace

size_t threads_of_one_job() { return host_is_foreign() ? 2 : 1; }

void note_parameter(remat::Storage& storage, c10::TensorImpl* tensor) {
  // Only if gradients are computed does the operator's own node hold the accumulator, so that
  // nobody replaces it.
  if (!c10::GradMode::is_enabled()) {
    mark_after_backward();
    return;
  }
  const auto* known = static_cast<const Accumulator*>(storage.backend_notes);
  if (known != nullptr && !known->expired()) [[likely]]
    return;
  const BorrowedTensor borrowed(tensor);
  const at::Tensor& used = *borrowed;
  HeldNode node;
  if (used.is_leaf()) {
    node = try_get_grad_accumulator(used);
  } else if (used.is_view()) {
    node = try_get_grad_accumulator(used._base());
  }
  if (node == nullptr) return;
  forget_parameter(storage);
  storage.backend_notes = new Accumulator(node);
  drop_later(storage, new HeldNode(std::move(node)));
}

void forget_parameter(remat::Storage& storage) {
  auto* const known = static_cast<Accumulator*>(std::exchange(storage.backend_notes, nullptr));
  if (known != nullptr) drop_later(storage, known);
}

remat::Storage* find_gradient(const remat::Storage& parameter) {
  const auto* known = static_cast<const Accumulator*>(parameter.backend_notes);
  if (known == nullptr) return nullptr;
  HeldNode node = known->lock();
  if (node == nullptr) return nullptr;
  const auto* accumulate = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get());
  drop_later(parameter, new HeldNode(std::move(node)));
  if (accumulate == nullptr) return nullptr;
  const at::Tensor& gradient = accumulate->variable.grad();
  if (!gradient.defined()) return nullptr;
  c10::StorageImpl* storage = storage_of(gradient.unsafeGetTensorImpl());
  remat::Runtime* runtime = storage != nullptr ? g_runtimes.of(device_of(storage)) : nullptr;
  if (runtime == nullptr) return nullptr;
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  return holds_block(data) ? runtime->find(data.get()) : nullptr;
}

}  // namespace tidepool::torch_glue
