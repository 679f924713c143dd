// Settings: the settings of the CPU's plugin. Each field names the entry of tidepool_attach()'s
// JSON that it comes from, beside those of bindings/torch/base/settings.h. Plain data; knows
// nothing of PyTorch.
#pragma once

#include <string>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/settings.h"

namespace tidepool::torch_cpu {

// How a job is driven by a trace of itself, for tests and measurements of jobs of one thread.
// Without a path it is not.
struct DrivenSettings {
  // "costs.path" (TIDEPOOL_COSTS): an uncompressed trace of the same job. Operators, copies and
  // moved pages cost what it says; another operator where it has one is an error. Needs "trace",
  // because that numbers the storages.
  std::string costs_path;
  // "costs.log" (TIDEPOOL_EVENT_LOG): a file for what is done for the job
  // (remat/simulate/job/work_log.h); empty: it is not logged.
  std::string log_path;
};

struct Settings {
  AllocatorConfig allocator;
  torch_glue::RuntimeSettings runtime;
  DrivenSettings driven;
  bool logs_allocations = false;  // "log_allocations", for tests: tidepool_allocation_log()

  // Parses the JSON of tidepool_attach(). Throws: std::invalid_argument naming the entry.
  static Settings parse(const std::string& json);
};

}  // namespace tidepool::torch_cpu
