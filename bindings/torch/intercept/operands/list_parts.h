// List parts: a call of an operator on lists (remat/lineage/list_operators.h) is run on parts of
// its lists, in order, where memory is short. Stateless.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "bindings/torch/calls/operator_info.h"

namespace tidepool::torch_glue {

// The ends of the parts as remat::list_part_ends() has them. Empty: the call is to run whole,
// because it fits, its lists are not of one length, or on a device parts of them might be computed
// in another way than the whole. Takes the devices' locks.
std::vector<size_t> part_ends(const OperatorInfo& info, const torch::jit::Stack& stack);

// Runs `run` on a stack for each part, and replaces the arguments on `stack` by the results of all.
void run_parts(const OperatorInfo& info, torch::jit::Stack* stack, const std::vector<size_t>& ends,
               const std::function<void(torch::jit::Stack*)>& run);

}  // namespace tidepool::torch_glue
