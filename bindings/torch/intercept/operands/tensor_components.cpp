#include "bindings/torch/intercept/operands/tensor_components.h"

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

bool is_sparse(const c10::TensorImpl& tensor) {
  const c10::Layout layout = tensor.layout();
  return layout == c10::kSparse || layout == c10::kSparseCsr || layout == c10::kSparseCsc ||
         layout == c10::kSparseBsr || layout == c10::kSparseBsc;
}

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

}  // namespace tidepool::torch_glue
