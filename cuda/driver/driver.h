// Driver: one device as the rest of this folder sees it: the driver's functions, the device's
// primary context, and errors as exceptions that say which call failed, how, and on what. Holds the
// primary context, which the runtime library and PyTorch use, too, from the first call that needs
// it to the end. Thread safe.
#pragma once

#include <mutex>
#include <string>

#include "allocator/space/address_space.h"
#include "cuda/driver/driver_functions.h"

namespace tidepool::device {

class Driver {
 public:
  // Throws: DeviceError naming the functions that are missing, or if there is no such device.
  Driver(const DriverFunctions& functions, int ordinal);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const DriverFunctions& call() const { return functions_; }
  int ordinal() const { return ordinal_; }
  bool has_virtual_memory() const { return has_virtual_memory_; }
  int attribute(int attribute) const;
  // What the device has left for whoever asks next; SIZE_MAX where it does not say.
  size_t free_bytes();

  // Describes an error: "cuMemMap of 2 MiB at 0x…, device 0: CUDA_ERROR_OUT_OF_MEMORY (2), …".
  DeviceError error(driver::Result result, const std::string& what) const;
  void check(driver::Result result, const char* what) const {
    if (result != driver::kSuccess) [[unlikely]]
      throw error(result, what);
  }

  // Makes the device's context the thread's current one for a scope. Without it a call that names
  // no context, or the default stream, goes to whatever device the thread happens to be on.
  class Scope {
   public:
    explicit Scope(Driver& driver);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Driver& driver_;
  };

 private:
  driver::Context context();

  const DriverFunctions functions_;
  const int ordinal_;
  driver::Device device_ = 0;
  bool has_virtual_memory_ = false;
  std::mutex mutex_;
  driver::Context context_ = nullptr;
};

}  // namespace tidepool::device
