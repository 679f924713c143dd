#include "bindings/torch/calls/tensor_components.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

namespace tidepool::torch_glue {
namespace {

bool is_nested(const c10::TensorImpl* tensor) {
  return tensor->key_set().has(c10::DispatchKey::NestedTensorCPU) ||
         tensor->key_set().has(c10::DispatchKey::NestedTensorCUDA);
}

}  // namespace

absl::InlinedVector<at::Tensor, 3> components_of(c10::TensorImpl* tensor) {
  absl::InlinedVector<at::Tensor, 3> found;
  if (tensor->is_python_dispatch()) return found;
  const auto add = [&](const at::Tensor& component) {
    if (component.defined()) found.push_back(component);
  };
  if (is_nested(tensor)) {
    auto* nested = static_cast<at::native::NestedTensorImpl*>(tensor);
    add(nested->get_nested_sizes());
    add(nested->get_nested_strides());
    add(nested->get_storage_offsets());
    return found;
  }
  switch (tensor->layout()) {
    case c10::kSparse: {
      auto* sparse = static_cast<at::SparseTensorImpl*>(tensor);
      add(sparse->indices());
      add(sparse->values());
      break;
    }
    case c10::kSparseCsr:
    case c10::kSparseCsc:
    case c10::kSparseBsr:
    case c10::kSparseBsc: {
      auto* sparse = static_cast<at::SparseCsrTensorImpl*>(tensor);
      add(sparse->compressed_indices());
      add(sparse->plain_indices());
      add(sparse->values());
      break;
    }
    case c10::kStrided: {
      if (!tensor->key_set().has(c10::DispatchKey::QuantizedCPU)) break;
      const at::QuantizerPtr quantizer = static_cast<at::QTensorImpl*>(tensor)->quantizer();
      const auto* per_channel = dynamic_cast<const at::PerChannelAffineQuantizer*>(quantizer.get());
      if (per_channel == nullptr) break;
      add(per_channel->scales());
      add(per_channel->zero_points());
      break;
    }
    default:
      break;
  }
  return found;
}

bool is_composable(const c10::TensorImpl& tensor) {
  constexpr c10::DispatchKeySet kKeys({c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseCsrCPU,
                                       c10::DispatchKey::ADInplaceOrView,
                                       c10::DispatchKey::AutogradCPU,
                                       c10::DispatchKey::AutocastCPU});
  const c10::DispatchKeySet keys = tensor.key_set();
  const bool is_sparse =
      keys.has(c10::DispatchKey::SparseCPU) || keys.has(c10::DispatchKey::SparseCsrCPU);
  return is_sparse && (keys.raw_repr() & ~kKeys.raw_repr()) == 0 &&
         !tensor.has_symbolic_sizes_strides();
}

Composition composition_of(c10::TensorImpl& tensor) {
  Composition composition{.layout = tensor.layout()};
  if (composition.layout == c10::kSparse) {
    const auto& sparse = static_cast<at::SparseTensorImpl&>(tensor);
    composition.coalesced = sparse.coalesced();
    composition.sparse_dimensions = sparse.sparse_dim();
  }
  return composition;
}

at::Tensor compose(const Composition& composition, c10::IntArrayRef sizes,
                   const absl::InlinedVector<at::Tensor, 3>& components) {
  const at::Tensor& values = components.back();
  if (composition.layout == c10::kSparse) {
    at::Tensor made = at::detail::make_tensor<at::SparseTensorImpl>(
        c10::DispatchKeySet(c10::DispatchKey::SparseCPU), values.dtype());
    auto* sparse = static_cast<at::SparseTensorImpl*>(made.unsafeGetTensorImpl());
    const int64_t dense = static_cast<int64_t>(sizes.size()) - composition.sparse_dimensions;
    sparse->raw_resize_(composition.sparse_dimensions, dense, sizes);
    sparse->set_indices_and_values_unsafe(components[0], values);
    sparse->set_coalesced(composition.coalesced);
    return made;
  }
  at::Tensor made = at::detail::make_tensor<at::SparseCsrTensorImpl>(
      c10::DispatchKeySet(c10::DispatchKey::SparseCsrCPU), values.device(), composition.layout,
      values.dtype());
  static_cast<at::SparseCsrTensorImpl*>(made.unsafeGetTensorImpl())
      ->set_member_tensors(components[0], components[1], values, sizes);
  return made;
}

}  // namespace tidepool::torch_glue
