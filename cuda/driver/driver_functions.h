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
// cudaGetDriverEntryPointByVersion has to be asked. All functions return driver::Result. Names are
// without "cu", because cuda.h makes macros of some that begin so.
#define TIDEPOOL_DRIVER_FUNCTIONS(X)                                                     \
  X(GetErrorName, 6000, (driver::Result, const char**))                                  \
  X(GetErrorString, 6000, (driver::Result, const char**))                                \
  X(DeviceGet, 2000, (driver::Device*, int))                                             \
  X(DeviceGetAttribute, 2000, (int*, int, driver::Device))                               \
  X(DevicePrimaryCtxRetain, 7000, (driver::Context*, driver::Device))                    \
  X(DevicePrimaryCtxRelease, 11000, (driver::Device))                                    \
  X(CtxPushCurrent, 4000, (driver::Context))                                             \
  X(CtxPopCurrent, 4000, (driver::Context*))                                             \
  X(CtxSynchronize, 2000, ())                                                            \
  X(StreamCreate, 2000, (driver::Stream*, unsigned))                                     \
  X(StreamDestroy, 4000, (driver::Stream))                                               \
  X(StreamSynchronize, 2000, (driver::Stream))                                           \
  X(StreamWaitEvent, 3020, (driver::Stream, driver::Event, unsigned))                    \
  X(EventCreate, 2000, (driver::Event*, unsigned))                                       \
  X(EventDestroy, 4000, (driver::Event))                                                 \
  X(EventRecord, 2000, (driver::Event, driver::Stream))                                  \
  X(EventQuery, 2000, (driver::Event))                                                   \
  X(EventSynchronize, 2000, (driver::Event))                                             \
  X(MemGetInfo, 3020, (size_t*, size_t*))                                                \
  X(MemHostAlloc, 2020, (void**, size_t, unsigned))                                      \
  X(MemFreeHost, 2000, (void*))                                                          \
  X(MemAlloc, 3020, (driver::DevicePointer*, size_t))                                    \
  X(MemFree, 3020, (driver::DevicePointer))                                              \
  X(MemcpyDtoHAsync, 3020, (void*, driver::DevicePointer, size_t, driver::Stream))       \
  X(MemcpyHtoDAsync, 3020, (driver::DevicePointer, const void*, size_t, driver::Stream)) \
  X(MemsetD8Async, 3020, (driver::DevicePointer, unsigned char, size_t, driver::Stream))

// Functions for devices with virtual memory.
#define TIDEPOOL_VIRTUAL_MEMORY_FUNCTIONS(X)                                                      \
  X(MemGetAllocationGranularity, 10020, (size_t*, const driver::AllocationProperties*, int))      \
  X(MemAddressReserve, 10020,                                                                     \
    (driver::DevicePointer*, size_t, size_t, driver::DevicePointer, unsigned long long))          \
  X(MemAddressFree, 10020, (driver::DevicePointer, size_t))                                       \
  X(MemCreate, 10020,                                                                             \
    (driver::AllocationHandle*, size_t, const driver::AllocationProperties*, unsigned long long)) \
  X(MemRelease, 10020, (driver::AllocationHandle))                                                \
  X(MemMap, 10020,                                                                                \
    (driver::DevicePointer, size_t, size_t, driver::AllocationHandle, unsigned long long))        \
  X(MemUnmap, 10020, (driver::DevicePointer, size_t))                                             \
  X(MemSetAccess, 10020,                                                                          \
    (driver::DevicePointer, size_t, const driver::AccessDescription*, size_t))                    \
  X(MemExportToShareableHandle, 10020, (void*, driver::AllocationHandle, int, unsigned long long))

// Functions for kernels of our own.
#define TIDEPOOL_KERNEL_FUNCTIONS(X)                                                         \
  X(ModuleLoadData, 2000, (driver::Module*, const void*))                                    \
  X(ModuleUnload, 2000, (driver::Module))                                                    \
  X(ModuleGetFunction, 2000, (driver::Function*, driver::Module, const char*))               \
  X(LaunchKernel, 4000,                                                                      \
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
