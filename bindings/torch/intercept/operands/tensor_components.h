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

// Whether it is one of coordinates, or of compressed rows, columns or blocks of these.
bool is_sparse(const c10::TensorImpl& tensor);

}  // namespace tidepool::torch_glue
