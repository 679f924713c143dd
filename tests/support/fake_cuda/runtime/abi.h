// The runtime's types as its binary interface has them, so that the stand-in builds where there is
// no CUDA toolkit. toolkit_check.cpp compares them with the toolkit's headers.
// Opaque handles are void*, enumerations int.
#pragma once

#include <cstddef>

#include "tests/support/fake_cuda/core/error.h"
#include "tests/support/fake_cuda/core/export.h"

namespace tidepool::fake_cuda::runtime {

struct Dimensions {  // dim3, uint3
  unsigned x, y, z;
};

struct PointerAttributes {
  int type;  // 0 unregistered, 1 host, 2 device
  int device;
  void* device_pointer;
  void* host_pointer;
  long reserved[8];
};

struct LaunchConfiguration {
  Dimensions grid;
  Dimensions block;
  size_t shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};

struct SharedMemoryHandle {
  char ticket[64];
};

struct SharedEventHandle {
  char reserved[64];
};

constexpr int kVersion = 13000;

Error& last_error();

// What a runtime function returns: the error, which cudaGetLastError then returns too.
inline int finish(Error error) {
  if (error != Error::kSuccess) last_error() = error;
  return static_cast<int>(error);
}

}  // namespace tidepool::fake_cuda::runtime
