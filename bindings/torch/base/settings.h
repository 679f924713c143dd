// Settings: what the plugin for the CPU is attached with (bindings/torch/plugin/api.h lists the
// entries). Plain data; knows nothing of PyTorch.
#pragma once

#include <memory>
#include <string>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/settings_reader.h"
#include "remat/plan/follow/plan_file.h"
#include "remat/record/recording_settings.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue {

// What is recorded of a job; without a path nothing is.
struct TraceSettings {
  plan::RecordingSettings recording;
  std::string name;
  bool blocks = false;  // where storages lie is recorded, too
};

// How a job is driven by a trace of itself; without a path it is not.
struct DrivenSettings {
  std::string costs_path;
  std::string log_path;  // empty: what is done is not logged
};

// What the policy `planned` does while the job runs: it searches for plans beside the job; or the
// job waits for the search at the end of a step, so that it runs the same way each time; or there
// are no plans.
enum class Planning : uint8_t { kBackground, kWait, kOff };

// Where contents may go beside being forgotten: on the CPU a file in a folder, on CUDA devices the
// host's memory.
struct OffloadSettings {
  std::string folder;
  uint64_t capacity_bytes = 0;  // of each device; 0: they may go nowhere
};

// The settings with which every engine is made.
struct RuntimeSettings {
  remat::RuntimeConfig config;
  Planning planning = Planning::kBackground;
  bool recording = true;
  bool raw_access = false;  // the job is C++, which takes and keeps tensors' addresses
  TraceSettings trace;
  OffloadSettings offload;
  std::shared_ptr<const plan::PlanFile> plans;  // those that jobs follow; nullptr for none
};

struct Settings {
  AllocatorConfig allocator;
  RuntimeSettings runtime;
  DrivenSettings driven;
  bool logs_allocations = false;  // for tests

  // Parses the JSON of tidepool_attach. Throws: std::invalid_argument naming the entry.
  static Settings parse(const std::string& json);
};

// Fills in the entries about the allocator that every plugin takes; budget_bytes 0: not given.
void read_allocator_settings(const SettingsReader& reader, AllocatorConfig& config);
// Fills in the entries about rematerialization that every plugin takes. Under chaos the allocator
// poisons.
void read_runtime_settings(const SettingsReader& reader, RuntimeSettings& settings,
                           AllocatorConfig& allocator);

}  // namespace tidepool::torch_glue
