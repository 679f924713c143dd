// CpuEngine: the engine of a CPU job, with the memory that it manages. It is made once and never
// destroyed.
#pragma once

#include <cstddef>

#include "bindings/torch_cpu/settings.h"

namespace tidepool::torch_glue {
class Engine;
}

namespace tidepool::torch_cpu {

class AllocationLog;

// Makes address space, allocator and engine, and makes them PyTorch's CPU allocator in this
// process. Throws: std::runtime_error if attached already, or PyTorch uses our dispatch key;
// std::invalid_argument for settings that do not go together.
void attach_cpu(const Settings& settings);

// Holds at most `bytes` from the system, or the engine's budget if that is less: evicts what has to
// go. False, and the limit is what it was, if what cannot be evicted takes more, or a single page
// does: the greater the budget of the start, the greater is a page. Thread safe.
bool set_limit(torch_glue::Engine& engine, size_t bytes);

// The log of allocations; nullptr unless the settings asked for one.
const AllocationLog* allocation_log();

}  // namespace tidepool::torch_cpu
