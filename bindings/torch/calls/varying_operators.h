// Varying operators: those that need not give the same bits each time on a CUDA device, mostly
// because threads add in the order in which they come. A replay could bring
// other bits than the operator made, so their results are roots. From what PyTorch documents of
// torch.use_deterministic_algorithms, and from the kernels that call alertNotDeterministic or add
// atomically. A table, because PyTorch tags none of its operators.
#pragma once

#include <string>

#include "bindings/torch/calls/operator_info.h"

namespace tidepool::torch_glue {

// `name`: without overload, "aten::index_add_". An operator's out=
// and in-place forms count too.
Variation variation_of(const std::string& name);

}  // namespace tidepool::torch_glue
