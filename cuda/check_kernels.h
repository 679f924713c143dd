// CheckKernels: fingerprints and poison on the device, for checks and debugging.
// Holds a module of kernels and 8 bytes of the device's memory outside any budget, both from
// construction to the end; the driver must outlive it. Thread safe: calls wait for each other.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "allocator/space/address_space.h"
#include "cuda/driver.h"

namespace tidepool::device {

class CheckKernels {
 public:
  // The kernels, or null and in `*why_not` the reason: not built in, the driver lacks functions, or
  // has no use for them on this device.
  static std::unique_ptr<CheckKernels> load(Driver& driver, std::span<const unsigned char> image,
                                            std::string* why_not);
  ~CheckKernels();
  CheckKernels(const CheckKernels&) = delete;
  CheckKernels& operator=(const CheckKernels&) = delete;

  // The fingerprint (allocator/base/fingerprint.h) that the bytes have after all that the stream
  // has been given so far; the host waits for it. Requires: `address` aligned to 8. Throws:
  // DeviceError.
  uint64_t fingerprint(Address address, size_t bytes, driver::Stream stream);

  // Overwrites the bytes, in the order of the stream. Requires: as above. Throws: DeviceError.
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
