// Driver: the driver's functions, found by name as PyTorch finds them, and a machine of its own.
// One at a time: it replaces the machine of the process.
#pragma once

#include <cstdint>

#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/driver/abi.h"

extern "C" int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                                unsigned long long flags, int* status);

namespace tidepool::fake_cuda {

constexpr size_t kPage = kGranularity;

template <typename Function>
Function* driver_entry(const char* name) {
  void* found = nullptr;
  cudaGetDriverEntryPointByVersion(name, &found, 12090, 0, nullptr);
  return reinterpret_cast<Function*>(found);
}

struct Driver {
  using DeviceAddress = driver::DeviceAddress;
  using Number = unsigned long long;

  explicit Driver(const Settings& settings = {}) : machine(reset(settings)) {
    initialize();
    use_context(0);
  }

  Machine& machine;

#define DRIVER_FUNCTION(member, name, ...) \
  int (*const member)(__VA_ARGS__) = driver_entry<int(__VA_ARGS__)>(name)

  DRIVER_FUNCTION(reserve, "cuMemAddressReserve", DeviceAddress*, size_t, size_t, DeviceAddress,
                  Number);
  DRIVER_FUNCTION(release_range, "cuMemAddressFree", DeviceAddress, size_t);
  DRIVER_FUNCTION(create, "cuMemCreate", Number*, size_t, const driver::AllocationProperties*,
                  Number);
  DRIVER_FUNCTION(release, "cuMemRelease", Number);
  DRIVER_FUNCTION(map, "cuMemMap", DeviceAddress, size_t, size_t, Number, Number);
  DRIVER_FUNCTION(set_access, "cuMemSetAccess", DeviceAddress, size_t,
                  const driver::AccessDescriptor*, size_t);
  DRIVER_FUNCTION(get_access, "cuMemGetAccess", Number*, const driver::Location*, DeviceAddress);
  DRIVER_FUNCTION(unmap, "cuMemUnmap", DeviceAddress, size_t);
  DRIVER_FUNCTION(retain, "cuMemRetainAllocationHandle", Number*, void*);
  DRIVER_FUNCTION(export_file, "cuMemExportToShareableHandle", void*, Number, int, Number);
  DRIVER_FUNCTION(import_file, "cuMemImportFromShareableHandle", Number*, void*, int);
  DRIVER_FUNCTION(granularity, "cuMemGetAllocationGranularity", size_t*,
                  const driver::AllocationProperties*, int);
  DRIVER_FUNCTION(allocate, "cuMemAlloc", DeviceAddress*, size_t);
  DRIVER_FUNCTION(free, "cuMemFree", DeviceAddress);
  DRIVER_FUNCTION(info, "cuMemGetInfo", size_t*, size_t*);
  DRIVER_FUNCTION(copy_async, "cuMemcpyAsync", DeviceAddress, DeviceAddress, size_t, void*);
  DRIVER_FUNCTION(copy_between, "cuMemcpyPeerAsync", DeviceAddress, void*, DeviceAddress, void*,
                  size_t, void*);
  DRIVER_FUNCTION(copy_to_host, "cuMemcpyDtoH", void*, DeviceAddress, size_t);
  DRIVER_FUNCTION(copy_to_device, "cuMemcpyHtoD", DeviceAddress, const void*, size_t);
  DRIVER_FUNCTION(fill_async, "cuMemsetD8Async", DeviceAddress, unsigned char, size_t, void*);
  DRIVER_FUNCTION(launch, "cuLaunchKernel", void*, unsigned, unsigned, unsigned, unsigned, unsigned,
                  unsigned, unsigned, void*, void**, void**);
  DRIVER_FUNCTION(create_stream, "cuStreamCreate", void**, unsigned);
  DRIVER_FUNCTION(destroy_stream, "cuStreamDestroy", void*);
  DRIVER_FUNCTION(wait, "cuStreamWaitEvent", void*, void*, unsigned);
  DRIVER_FUNCTION(query_stream, "cuStreamQuery", void*);
  DRIVER_FUNCTION(synchronize_stream, "cuStreamSynchronize", void*);
  DRIVER_FUNCTION(synchronize_device, "cuCtxSynchronize");
  DRIVER_FUNCTION(create_event, "cuEventCreate", void**, unsigned);
  DRIVER_FUNCTION(destroy_event, "cuEventDestroy", void*);
  DRIVER_FUNCTION(record, "cuEventRecord", void*, void*);
  DRIVER_FUNCTION(query, "cuEventQuery", void*);
  DRIVER_FUNCTION(synchronize, "cuEventSynchronize", void*);
  DRIVER_FUNCTION(elapsed, "cuEventElapsedTime", float*, void*, void*);
#undef DRIVER_FUNCTION

  static driver::AllocationProperties on_device(int device = 0) {
    driver::AllocationProperties properties{};
    properties.type = driver::kPinned;
    properties.location = {driver::kDevice, device};
    return properties;
  }

  // These give 0 where the driver refuses.
  DeviceAddress reserved(size_t bytes) const {
    DeviceAddress start = 0;
    return reserve(&start, bytes, 0, 0, 0) == 0 ? start : 0;
  }
  Number created(size_t bytes, int device = 0) const {
    const driver::AllocationProperties properties = on_device(device);
    Number handle = 0;
    return create(&handle, bytes, &properties, 0) == 0 ? handle : 0;
  }
  int allow(DeviceAddress address, size_t bytes, int device = 0, int flags = 3) const {
    const driver::AccessDescriptor descriptor{{driver::kDevice, device}, flags};
    return set_access(address, bytes, &descriptor, 1);
  }
  // The answer; if it is an error that breaks the context, the next call is answered all the same.
  int mended(int answer) const {
    machine.broken = Error::kSuccess;
    return answer;
  }
  int run_kernel(void* stream) const {
    return launch(const_cast<char*>("kernel"), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
  void* stream(unsigned flags = kNonBlocking) const {
    void* made = nullptr;
    create_stream(&made, flags);
    return made;
  }
  void* event(unsigned flags = 0) const {
    void* made = nullptr;
    create_event(&made, flags);
    return made;
  }
};

constexpr int kOk = 0;
constexpr int kInvalid = static_cast<int>(Error::kInvalidValue);
constexpr int kOutOfMemory = static_cast<int>(Error::kOutOfMemory);
constexpr int kNotReadyCode = static_cast<int>(Error::kNotReady);

}  // namespace tidepool::fake_cuda
