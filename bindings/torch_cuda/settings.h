// Settings: the settings of the CUDA plugin; bindings/torch_cuda/api.h lists the entries.
// Plain data; knows nothing of PyTorch.
#pragma once

#include <string>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/settings.h"

namespace tidepool::torch_cuda {

struct Settings {
  AllocatorConfig allocator;  // that of each device; if budget_bytes is 0, budget_share counts
  double budget_share = 0;    // the budget as a share of a device's memory
  bool budget_auto = false;   // the budget is what the device gives, but for a reserve
  bool rematerialize = true;  // if not, the plugin is a caching allocator with a budget
  torch_glue::RuntimeSettings runtime;
  // A file for what finds no room in the host's memory that `runtime.offload` has.
  torch_glue::OffloadSettings below_host;
  bool native = false;  // to debug: PyTorch's own allocator serves all requests, under the budget

  // Parses the JSON of tidepool_attach. Throws: std::invalid_argument naming the entry.
  static Settings parse(const std::string& json);
};

}  // namespace tidepool::torch_cuda
