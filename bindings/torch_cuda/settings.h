// Settings: the settings of the CUDA plugin. Each field names the entry of tidepool_attach()'s JSON
// that it comes from, beside those of bindings/torch/base/settings.h.
// Plain data; knows nothing of PyTorch.
#pragma once

#include <string>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/settings.h"

namespace tidepool::torch_cuda {

struct Settings {
  AllocatorConfig allocator;  // that of each device; if budget_bytes is 0, budget_share counts
  double budget_share = 0;    // "budget_share": the budget as a share of a device's memory, up to 1
  bool budget_auto = false;   // "budget_auto": what the device gives, but for a reserve
  // "rematerialize": if not, the plugin is a caching allocator with a budget.
  bool rematerialize = true;
  torch_glue::RuntimeSettings runtime;
  // "offload.below": a file for what finds no room in the host's memory that `runtime.offload` has.
  torch_glue::OffloadSettings below_host;
  // "allocator": "arena", or "native" to debug: PyTorch's own serves all requests, under the
  // budget.
  bool native = false;

  // Parses the JSON of tidepool_attach. Throws: std::invalid_argument naming the entry.
  static Settings parse(const std::string& json);
};

}  // namespace tidepool::torch_cuda
