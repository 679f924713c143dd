// Indexed places: whether an operator that writes at the places that indices name, on the CPU,
// meets each place once at most. Then its result does not depend on the order in which threads come
// to them. Stateless.
#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/ArrayRef.h>

namespace tidepool::torch_glue {

// `written`: the tensor that is written or copied; `indices`: as PyTorch's `index_put_` takes them,
// one for each of its first dimensions, nullptr or undefined for a whole dimension. They are
// resident CPU tensors. False also where that is not looked at: if the tensor has gaps or overlaps,
// if indices are of several shapes or not contiguous, or if there are few for the places that they
// may name. O(indices + places / 64).
bool are_places_distinct(const c10::TensorImpl& written,
                         c10::ArrayRef<const c10::TensorImpl*> indices);

// The same for what `max_unpool2d` and `max_unpool3d` write: each plane of the last `dimensions`
// dimensions of `indices` names places of a plane of its own. O(indices + planes * places / 64).
bool are_planes_distinct(const c10::TensorImpl& indices, int64_t dimensions);

}  // namespace tidepool::torch_glue
