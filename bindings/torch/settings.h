// Settings: what the plugin for the CPU is attached with (bindings/torch/api.h lists the entries).
// Plain data; knows nothing of PyTorch.
#pragma once

#include <string>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/settings_reader.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue {

struct Settings {
  AllocatorConfig allocator;
  remat::RuntimeConfig runtime;
  bool recording = true;

  // Parses the JSON of tidepool_attach. Throws: std::invalid_argument naming the entry.
  static Settings parse(const std::string& json);
};

// Fills in the entries about the allocator that every plugin takes; budget_bytes 0: not given.
void read_allocator_settings(const SettingsReader& reader, AllocatorConfig& config);

}  // namespace tidepool::torch_glue
