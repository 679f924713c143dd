// fill_device(): overwrites device memory for debugging, in order with all work on the device.
#pragma once

#include "cuda/driver/driver.h"

namespace tidepool::device {

// Overwrites the bytes. Waits for all work on the device, before and after. Throws: DeviceError.
inline void fill_device(Driver& driver, Address address, size_t bytes, unsigned char value) {
  Driver::Scope scope(driver);
  const DriverFunctions& call = driver.call();
  driver.check(call.CtxSynchronize(), "cuCtxSynchronize");
  driver.check(call.MemsetD8Async(address.value, value, bytes, nullptr), "cuMemsetD8Async");
  driver.check(call.CtxSynchronize(), "cuCtxSynchronize");
}

}  // namespace tidepool::device
