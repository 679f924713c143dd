// statistics_json: an engine's statistics as JSON, the value of `devices` in the statistics file.
#pragma once

#include <string>

#include "bindings/torch/engine/engine.h"

namespace tidepool::torch_cpu {

// An object with one member for each device, "cpu", "cuda:0" and so on. docs/guide.md has the keys.
std::string statistics_json(torch_glue::Engine& engine);

}  // namespace tidepool::torch_cpu
