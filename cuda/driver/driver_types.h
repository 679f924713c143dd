// The few types and constants of CUDA's driver interface that we use. They are declared here, with
// the driver's layout and values, so that this folder builds where no toolkit is installed (not
// every PyTorch wheel carries cuda.h). If there is a toolkit, a test compares them with its header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidepool::device::driver {

using Result = int;  // CUresult
using Device = int;  // CUdevice
using DevicePointer = unsigned long long;
using AllocationHandle = unsigned long long;  // CUmemGenericAllocationHandle
using Context = struct ContextTag*;           // CUcontext; opaque, as those below
using Stream = struct StreamTag*;             // CUstream, cudaStream_t; null: the default stream
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotReady = 600;

// Whether a context that has answered so answers nothing else any more: CUDA was never initialised
// in this process (a forked child's), or is gone, or a kernel has broken the context.
inline bool is_broken(Result result) {
  constexpr Result kNotInitialized = 3;
  constexpr Result kDeinitialized = 4;
  constexpr Result kUncorrectable = 214;
  constexpr Result kIllegalAddress = 700;
  constexpr Result kLaunchTimeout = 702;
  constexpr Result kContextDestroyed = 709;
  constexpr Result kAssert = 710;
  constexpr Result kHardwareStackError = 714;  // with the next five, what else a kernel did wrong
  constexpr Result kLaunchFailed = 719;
  return result == kNotInitialized || result == kDeinitialized || result == kUncorrectable ||
         result == kIllegalAddress || result == kLaunchTimeout || result == kContextDestroyed ||
         result == kAssert || (result >= kHardwareStackError && result <= kLaunchFailed);
}

inline constexpr int kVirtualMemorySupported = 102;  // CUdevice_attribute
inline constexpr int kFileDescriptorsSupported = 103;
inline constexpr int kGpuDirectRdmaSupported = 110;  // of memory that is mapped
inline constexpr int kMultiprocessorCount = 16;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kAllocationPinned = 1;  // CUmemAllocationType
inline constexpr int kLocationDevice = 1;    // CUmemLocationType
inline constexpr int kAccessReadWrite = 3;   // CUmemAccess_flags
inline constexpr int kHandleNone = 0;        // CUmemAllocationHandleType
inline constexpr int kHandleFileDescriptor = 1;
inline constexpr int kGranularityMinimum = 0;

struct Location {  // CUmemLocation
  int type = kLocationDevice;
  int id = 0;
};

struct AllocationProperties {  // CUmemAllocationProp
  int type = kAllocationPinned;
  int requested_handle_types = kHandleNone;
  Location location;
  void* win32_meta_data = nullptr;
  struct Flags {
    unsigned char compression_type = 0;
    unsigned char gpu_direct_rdma_capable = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  } flags;
};

struct AccessDescription {  // CUmemAccessDesc
  Location location;
  int flags = kAccessReadWrite;
};

}  // namespace tidepool::device::driver
