// Varying operators: operators that need not give the same bits each time, mostly on CUDA devices,
// because threads add in the order in which they come. A replay could give other bits than the
// operator did, so their results are roots. They are in a table, because PyTorch tags none of its
// operators so; it was made from what PyTorch documents of torch.use_deterministic_algorithms, and
// from the kernels that call alertNotDeterministic or add atomically.
#pragma once

#include <string>
#include <string_view>

#include "bindings/torch/calls/operator_info.h"

namespace tidepool::torch_glue {

// How an operator varies on a CUDA device, by its `name` without the overload, such as
// "aten::index_add_". Its out= and in-place forms vary as it does.
Variation variation_of(const std::string& name);

// How a trusted operator varies on the CPU, by its name with the overload.
Variation host_variation_of(std::string_view qualified_name);

}  // namespace tidepool::torch_glue
