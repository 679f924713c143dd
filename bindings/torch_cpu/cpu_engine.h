// CpuEngine: the engine of a CPU job, with the memory it manages. Made once, never destroyed.
#pragma once

#include "bindings/torch/base/settings.h"

namespace tidepool::torch_cpu {

class AllocationLog;

// Attaches to this process: address space, allocator, engine, PyTorch's CPU allocator.
// Throws: std::runtime_error if attached already, or PyTorch uses our dispatch key;
// std::invalid_argument for settings that do not go together.
void attach_cpu(const torch_glue::Settings& settings);

// Nullptr unless the settings asked for it.
const AllocationLog* allocation_log();

}  // namespace tidepool::torch_cpu
