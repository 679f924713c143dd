// DeviceError: the device, or the kernel, refused a call.
#pragma once

#include <stdexcept>
#include <string>

namespace tidepool {

class DeviceError : public std::runtime_error {
 public:
  explicit DeviceError(const std::string& what) : std::runtime_error(what) {}
};

}  // namespace tidepool
