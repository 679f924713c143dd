// DriverFunctions: the table of CUDA driver functions that this folder calls, filled by whoever can
// find them (bindings: cudaGetDriverEntryPointByVersion; tests: a fake). Nothing here links CUDA.
// Plain data; thread safe once filled.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda/driver/driver_types.h"

namespace tidepool::device {

// X(name, version, parameters): a function as it was in that version of CUDA, for which
// cudaGetDriverEntryPointByVersion has to be asked. All functions return driver::Result.
#define TIDEPOOL_DRIVER_FUNCTIONS(X)                                                       \
  X(cuGetErrorName, 6000, (driver::Result, const char**))                                  \
  X(cuGetErrorString, 6000, (driver::Result, const char**))                                \
  X(cuDeviceGet, 2000, (driver::Device*, int))                                             \
  X(cuDeviceGetAttribute, 2000, (int*, int, driver::Device))                               \
  X(cuDevicePrimaryCtxRetain, 7000, (driver::Context*, driver::Device))                    \
  X(cuDevicePrimaryCtxRelease, 11000, (driver::Device))                                    \
  X(cuCtxPushCurrent, 4000, (driver::Context))                                             \
  X(cuCtxPopCurrent, 4000, (driver::Context*))                                             \
  X(cuCtxSynchronize, 2000, ())                                                            \
  X(cuStreamCreate, 2000, (driver::Stream*, unsigned))                                     \
  X(cuStreamDestroy, 4000, (driver::Stream))                                               \
  X(cuStreamSynchronize, 2000, (driver::Stream))                                           \
  X(cuStreamWaitEvent, 3020, (driver::Stream, driver::Event, unsigned))                    \
  X(cuEventCreate, 2000, (driver::Event*, unsigned))                                       \
  X(cuEventDestroy, 4000, (driver::Event))                                                 \
  X(cuEventRecord, 2000, (driver::Event, driver::Stream))                                  \
  X(cuEventQuery, 2000, (driver::Event))                                                   \
  X(cuEventSynchronize, 2000, (driver::Event))                                             \
  X(cuMemGetInfo, 3020, (size_t*, size_t*))                                                \
  X(cuMemHostAlloc, 2020, (void**, size_t, unsigned))                                      \
  X(cuMemFreeHost, 2000, (void*))                                                          \
  X(cuMemAlloc, 3020, (driver::DevicePointer*, size_t))                                    \
  X(cuMemFree, 3020, (driver::DevicePointer))                                              \
  X(cuMemcpyDtoHAsync, 3020, (void*, driver::DevicePointer, size_t, driver::Stream))       \
  X(cuMemcpyHtoDAsync, 3020, (driver::DevicePointer, const void*, size_t, driver::Stream)) \
  X(cuMemsetD8Async, 3020, (driver::DevicePointer, unsigned char, size_t, driver::Stream))

// Functions for devices with virtual memory.
#define TIDEPOOL_VIRTUAL_MEMORY_FUNCTIONS(X)                                                      \
  X(cuMemGetAllocationGranularity, 10020, (size_t*, const driver::AllocationProperties*, int))    \
  X(cuMemAddressReserve, 10020,                                                                   \
    (driver::DevicePointer*, size_t, size_t, driver::DevicePointer, unsigned long long))          \
  X(cuMemAddressFree, 10020, (driver::DevicePointer, size_t))                                     \
  X(cuMemCreate, 10020,                                                                           \
    (driver::AllocationHandle*, size_t, const driver::AllocationProperties*, unsigned long long)) \
  X(cuMemRelease, 10020, (driver::AllocationHandle))                                              \
  X(cuMemMap, 10020,                                                                              \
    (driver::DevicePointer, size_t, size_t, driver::AllocationHandle, unsigned long long))        \
  X(cuMemUnmap, 10020, (driver::DevicePointer, size_t))                                           \
  X(cuMemSetAccess, 10020,                                                                        \
    (driver::DevicePointer, size_t, const driver::AccessDescription*, size_t))                    \
  X(cuMemExportToShareableHandle, 10020, (void*, driver::AllocationHandle, int, unsigned long long))

// Functions for kernels of our own.
#define TIDEPOOL_KERNEL_FUNCTIONS(X)                                                         \
  X(cuModuleLoadData, 2000, (driver::Module*, const void*))                                  \
  X(cuModuleUnload, 2000, (driver::Module))                                                  \
  X(cuModuleGetFunction, 2000, (driver::Function*, driver::Module, const char*))             \
  X(cuLaunchKernel, 4000,                                                                    \
    (driver::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
     driver::Stream, void**, void**))

struct DriverFunctions {
#define TIDEPOOL_MEMBER(name, version, parameters) driver::Result(*name) parameters = nullptr;
  TIDEPOOL_DRIVER_FUNCTIONS(TIDEPOOL_MEMBER)
  TIDEPOOL_VIRTUAL_MEMORY_FUNCTIONS(TIDEPOOL_MEMBER)
  TIDEPOOL_KERNEL_FUNCTIONS(TIDEPOOL_MEMBER)
#undef TIDEPOOL_MEMBER

  // The names that the finder did not know.
  std::vector<std::string> missing;          // without them nothing here works
  std::vector<std::string> missing_virtual;  // without them there is only MallocSpace
  std::vector<std::string> missing_kernels;  // without them there are no kernels of ours
};

// Finds a driver function as it was in a version, in CUDA's numbers (12030 is 12.3). Returns its
// address, or null.
using FunctionFinder = std::function<void*(const char* name, unsigned version)>;

DriverFunctions find_driver_functions(const FunctionFinder& find);

}  // namespace tidepool::device
