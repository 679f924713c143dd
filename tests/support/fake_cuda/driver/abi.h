// The driver's types as its binary interface has them, so that the stand-in builds where there is
// no CUDA toolkit. tests/support/fake_cuda/runtime/toolkit_check.cpp compares them with cuda.h.
// Opaque handles are void*, enumerations int, device addresses DeviceAddress.
#pragma once

#include <cstddef>

#include "tests/support/fake_cuda/core/error.h"
#include "tests/support/fake_cuda/core/export.h"

namespace tidepool::fake_cuda::driver {

using DeviceAddress = unsigned long long;

struct Location {
  int type;  // kDevice, or a kind of host memory
  int id;
};
constexpr int kDevice = 1;

struct AllocationProperties {
  int type;
  int requested_handle_types;
  Location location;
  void* win32_handle_data;
  unsigned char compression_type;
  unsigned char rdma_capable;
  unsigned short usage;
  unsigned char reserved[4];
};
constexpr int kPinned = 1;          // the only type
constexpr int kFileDescriptor = 1;  // the only type of handle for other processes

struct AccessDescriptor {
  Location location;
  int flags;  // 0, 1 (read), 3 (read and write)
};

constexpr int kVersion = 13000;

// A device's primary context, the only one there is.
inline void* context(int device) { return reinterpret_cast<void*>(uintptr_t{0x1000} + device); }
inline int device_of(const void* context) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(context) - 0x1000);
}

inline int code(Error error) { return static_cast<int>(error); }
inline void* pointer(DeviceAddress address) { return reinterpret_cast<void*>(address); }

}  // namespace tidepool::fake_cuda::driver
