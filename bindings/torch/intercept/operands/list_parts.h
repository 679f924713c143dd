// List parts: an operator that works on the elements of its lists one by one (PyTorch's `_foreach_`
// and fused optimizers' operators) is run on parts of the lists, in order, where its operands are
// too large to be resident together. The results are the same, because no element's depends on
// another's.
// Stateless.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "bindings/torch/calls/operator_info.h"

namespace tidepool::torch_glue {

// The ends of the parts, in elements: {2, 3, 7} for the parts 0 to 1, 2, and 3 to 6. Each part has
// as many elements as take at most `most_bytes`, but at least one. Empty: the call is to run whole,
// because it fits, or its lists are not of one length.
std::vector<size_t> part_ends(const OperatorInfo& info, const torch::jit::Stack& stack,
                              size_t most_bytes);

// Runs `run` on a stack for each part, and replaces the arguments on `stack` by the results of all.
void run_parts(const OperatorInfo& info, torch::jit::Stack* stack, const std::vector<size_t>& ends,
               const std::function<void(torch::jit::Stack*)>& run);

}  // namespace tidepool::torch_glue
