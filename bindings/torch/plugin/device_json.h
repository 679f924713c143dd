// device_json(): the statistics of one device, with the keys of docs/guide.md. Knows nothing of
// PyTorch.
// Sizes are in bytes, times in nanoseconds.
#pragma once

#include <nlohmann/json.hpp>

#include "allocator/budgeted_allocator.h"
#include "remat/plan/background/background_planner.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue {

nlohmann::json device_json(const AllocatorStatistics& memory, const remat::RuntimeStatistics& remat,
                           const remat::BackgroundPlannerStatistics& planning);

}  // namespace tidepool::torch_glue
