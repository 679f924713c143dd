// CheckKernels: fingerprints and poison on the device, for checks and debugging.
// Owns a module of kernels, and 8 bytes of the device's memory, which no budget counts. The driver
// must outlive it. Thread safe: calls wait for each other.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "allocator/space/address_space.h"
#include "cuda/driver/driver.h"

namespace tidepool::device {

class CheckKernels {
 public:
  // Loads the kernels. Returns null, and gives the reason in `*why_not`, if they were not built in,
  // or the driver lacks functions or cannot run them on this device.
  static std::unique_ptr<CheckKernels> load(Driver& driver, std::span<const unsigned char> image,
                                            std::string* why_not);
  ~CheckKernels();
  CheckKernels(const CheckKernels&) = delete;
  CheckKernels& operator=(const CheckKernels&) = delete;

  // Returns the fingerprint (allocator/base/fingerprint.h) that the bytes have after all the work
  // that the stream has been given so far, for which the host waits. Requires: `address` is aligned
  // to 8. Throws: DeviceError.
  uint64_t fingerprint(Address address, size_t bytes, driver::Stream stream);

  // Overwrites the bytes in the order of the stream's work. Requires: `address` is aligned to 8.
  // Throws: DeviceError.
  void poison(Address address, size_t bytes, unsigned char value, driver::Stream stream);

 private:
  explicit CheckKernels(Driver& driver) : driver_(driver) {}
  void prepare(std::span<const unsigned char> image);  // Throws: DeviceError
  void launch(driver::Function kernel, size_t words, driver::Stream stream, void** arguments);

  Driver& driver_;
  std::mutex mutex_;
  unsigned blocks_at_most_ = 1;
  driver::Module module_ = nullptr;
  driver::Function fingerprint_ = nullptr;
  driver::Function poison_ = nullptr;
  driver::DevicePointer sum_ = 0;
};

}  // namespace tidepool::device
