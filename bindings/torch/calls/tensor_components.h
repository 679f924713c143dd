// Components of a tensor: the tensors that a sparse, nested or quantized one holds inside, whose
// memory its kernels read without showing them to the dispatcher.
// Stateless; thread safe as far as the tensor is.
#pragma once

#include <ATen/core/Tensor.h>

#include "absl/container/inlined_vector.h"

namespace tidepool::torch_glue {

// The components that are defined. An ordinary tensor has none. Neither has one that is written in
// Python, though it may look as if it had.
absl::InlinedVector<at::Tensor, 3> components_of(c10::TensorImpl* tensor);

// Whether the tensor is a sparse one on the host, without anything that compose() does not give it.
bool is_composable(const c10::TensorImpl& tensor);

// What a sparse tensor is beside its components.
struct Composition {
  c10::Layout layout = c10::kSparse;
  bool coalesced = false;
  int64_t sparse_dimensions = 0;  // those of a tensor of coordinates
};
Composition composition_of(c10::TensorImpl& tensor);

// A sparse tensor of these sizes, on these components in the order of components_of(), which it
// shares. Requires: is_composable() held of the tensor that they are from.
at::Tensor compose(const Composition& composition, c10::IntArrayRef sizes,
                   const absl::InlinedVector<at::Tensor, 3>& components);

}  // namespace tidepool::torch_glue
