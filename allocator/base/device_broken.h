// DeviceBroken: the device refused a call, and will refuse all others: an error of a kernel has
// broken its context, or the process has no device any more. It is no shortage of memory.
#pragma once

#include "allocator/base/device_error.h"

namespace tidepool {

class DeviceBroken final : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace tidepool
