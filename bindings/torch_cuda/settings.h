// Settings: what the plugin for CUDA is attached with; bindings/torch_cuda/api.h lists the entries.
// Plain data; knows nothing of PyTorch.
#pragma once

#include <string>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/settings.h"

namespace tidepool::torch_cuda {

struct Settings {
  AllocatorConfig allocator;  // of each device; budget_bytes 0: budget_share counts
  double budget_share = 0;    // of a device's memory
  bool budget_auto = false;   // what the device gives, but for a reserve; see CudaAllocator
  bool rematerialize = true;  // false: a caching allocator with a budget, and nothing more
  torch_glue::RuntimeSettings runtime;
  bool native = false;  // for debugging: PyTorch's own allocator serves all, under the budget

  // Parses the JSON of tidepool_attach. Throws: std::invalid_argument naming the entry.
  static Settings parse(const std::string& json);
};

}  // namespace tidepool::torch_cuda
