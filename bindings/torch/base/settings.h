// RuntimeSettings: what every plugin is attached with, whatever its device. The JSON of
// tidepool_attach() has an entry for each field, which the field's comment names; an entry that is
// missing leaves the field as it is. What only one plugin has is in that plugin's settings.h.
// Plain data; knows nothing of PyTorch.
#pragma once

#include <memory>
#include <string>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/settings_reader.h"
#include "remat/plan/follow/plan_file.h"
#include "remat/record/recording_settings.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue {

// "trace": what is recorded of a job; without a path nothing is.
struct TraceSettings {
  remat::RecordingSettings recording;  // "path", "first_step", "last_step"
  std::string name;                    // "name": what reports call the job
  bool blocks = false;  // "blocks" (TIDEPOOL_TRACE_BLOCKS): where storages lie is recorded, too
};

// "planning": what the policy `planned` does while the job runs. "background": it searches for
// plans beside the job. "wait": the job waits for the search at the end of a step, so that it runs
// the same way each time. "off": there are no plans.
enum class Planning : uint8_t { kBackground, kWait, kOff };

// "offload": where contents may go beside being forgotten: on the CPU a file in a folder, on CUDA
// devices the host's memory.
struct OffloadSettings {
  std::string folder;           // "folder"
  uint64_t capacity_bytes = 0;  // "bytes": of each device; 0: they may go nowhere
};

// The settings with which every engine is made.
struct RuntimeSettings {
  // "policy"; "chaos": "none", "op", "alloc", "random:SEED", "bounded", "bounded:SEED" or
  // "offload:SEED"; "limits": {"depth", "versions", "age_steps", "records", "bookkeeping_bytes"};
  // "compares_restored": contents that come back otherwise than they were evicted are an error.
  remat::RuntimeConfig config;
  Planning planning = Planning::kBackground;
  bool recording = true;  // "recording": whether lineage is
  // "raw_access": the job is a program without Python, which takes tensors' addresses and keeps
  // them (bindings/torch/storage/tripwire.h).
  bool raw_access = false;
  TraceSettings trace;
  OffloadSettings offload;
  // "plan": a plan file that steps follow, in place of a search; nullptr for none.
  std::shared_ptr<const remat::PlanFile> plans;
};

// Fills in what every plugin takes of the allocator: "budget_bytes" (0: not given), "page_bytes",
// "poison", "allow_windows", "allow_moves", "allow_remap".
void read_allocator_settings(const SettingsReader& reader, AllocatorConfig& config);
// Fills in the entries about rematerialization that every plugin takes. Under chaos the allocator
// poisons.
void read_runtime_settings(const SettingsReader& reader, RuntimeSettings& settings,
                           AllocatorConfig& allocator);

}  // namespace tidepool::torch_glue
