// bytes_shown_by(): which bytes of its storage a tensor shows. Stateless; thread safe as far as the
// tensor is.
#pragma once

#include <c10/core/TensorImpl.h>

#include <optional>

#include "remat/residency/pieces.h"

namespace tidepool::torch_glue {

// The ranges in the order of the tensor's dimensions of growing strides; they may overlap where
// elements do. Nothing if there are more than 256, and they do not repeat over all of the storage.
std::optional<remat::ByteRanges> bytes_shown_by(const c10::TensorImpl& tensor);

}  // namespace tidepool::torch_glue
