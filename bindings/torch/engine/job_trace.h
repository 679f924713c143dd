// job_trace: starts to record the trace of what a job does on one device. See docs/trace-format.md.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/settings.h"
#include "remat/lineage/backend.h"
#include "remat/record/trace_recorder.h"

namespace tidepool::torch_glue {

// What a trace of a job on the device says of it, but for its name: with the prices that are known
// of copies and pages at this moment.
remat::TraceFacts trace_facts(c10::Device device, const remat::Backend& backend,
                              const BudgetedAllocator& allocator);

// The file of the device with this number: "out.json.gz", 1 -> "out.1.json.gz"; 0 changes nothing.
std::string numbered_path(const std::string& path, int number);

// A recorder for the device; nullptr if nothing is to be recorded. The file of a second device has
// its number in its name. What goes wrong is said on stderr, and the job goes on.
std::unique_ptr<remat::TraceRecorder> start_trace_recorder(const TraceSettings& settings,
                                                           c10::Device device,
                                                           const remat::Backend& backend,
                                                           const BudgetedAllocator& allocator);

}  // namespace tidepool::torch_glue
