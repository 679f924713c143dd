// Statistics as JSON: the value of `devices` in the statistics file.
#pragma once

#include <string>

#include "bindings/torch/engine/engine.h"

namespace tidepool::torch_cpu {

// One object per device, keyed "cpu", "cuda:0", ...; keys as documented in docs/guide.md.
std::string statistics_json(torch_glue::Engine& engine);

}  // namespace tidepool::torch_cpu
