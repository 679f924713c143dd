// DriverLibrary: the CUDA driver of this process, loaded when it is first needed, for bindings that
// have no CUDA runtime of a framework to ask. Nothing is linked, so that a machine without a driver
// gives an error with a message.
// Never unloaded. Thread safe.
#pragma once

#include <cstddef>

#include "cuda/driver/driver_functions.h"

namespace tidepool::device {

class DriverLibrary {
 public:
  // Throws: DeviceError if there is no driver, it is too old, or it cannot be initialised.
  static DriverLibrary& instance();

  const DriverFunctions& functions() const { return functions_; }
  int device_count() const;  // Throws: DeviceError, as the next.
  size_t memory_bytes(int ordinal) const;

 private:
  DriverLibrary();

  DriverFunctions functions_;
  driver::Result (*device_get_count_)(int*) = nullptr;
  driver::Result (*device_total_memory_)(size_t*, driver::Device) = nullptr;
};

}  // namespace tidepool::device
