// Installation: prepares a process before the first engine of a kind of device is made known.
#pragma once

#include <c10/core/Device.h>

#include "bindings/torch/base/settings.h"

namespace tidepool::torch_glue {

// Prepares the process for engines of one kind of device: has operators intercepted on this thread,
// and installs what a fork needs. Called once.
// Throws: std::runtime_error if PyTorch uses the key already, or if it has no tripwire for a job
// that needs one.
void install_engines(c10::DeviceType type, const RuntimeSettings& settings);

}  // namespace tidepool::torch_glue
