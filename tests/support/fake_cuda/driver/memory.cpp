// Driver functions of memory: allocation, and virtual memory.
#include <cstring>

#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/core/memory_calls.h"
#include "tests/support/fake_cuda/driver/abi.h"

namespace tidepool::fake_cuda::driver {
namespace {

// The device that memory with these properties would be on.
int device_of(const AllocationProperties* properties) {
  if (!properties || properties->type != kPinned || properties->location.type != kDevice) {
    throw Refusal(Error::kInvalidValue, "not pinned memory on a device");
  }
  if ((properties->requested_handle_types & ~kFileDescriptor) != 0) {
    throw Refusal(Error::kNotSupported, "handles other than file descriptors");
  }
  return properties->location.id;
}

int set_access(DeviceAddress address, size_t bytes, const AccessDescriptor* descriptors,
               size_t count) {
  return code(run(Call::kAccess, "cuMemSetAccess", [&](Machine& m) {
    if (!descriptors || count == 0) throw Refusal(Error::kInvalidValue, "no descriptors");
    for (size_t i = 0; i < count; ++i) {
      const int flags = descriptors[i].flags;
      if (descriptors[i].location.type != kDevice || (flags != 0 && flags != 1 && flags != 3)) {
        throw Refusal(Error::kInvalidValue, "no device, or unknown flags");
      }
    }
    for (size_t i = 0; i < count; ++i) {
      m.virtual_memory.set_access(address, bytes, descriptors[i].location.id,
                                  static_cast<Access>(descriptors[i].flags));
    }
    return Error::kSuccess;
  }));
}

int unmap(DeviceAddress address, size_t bytes) {
  return code(run(Call::kUnmap, "cuMemUnmap", [&](Machine& m) {
    m.virtual_memory.unmap(address, bytes);
    m.returned(address, bytes);
    return Error::kSuccess;
  }));
}

int export_file(void* out, unsigned long long handle, int type, unsigned long long flags) {
  return code(run(Call::kOther, "cuMemExportToShareableHandle", [&](Machine& m) {
    if (type != kFileDescriptor || flags != 0) {
      throw Refusal(Error::kNotSupported, "not a file descriptor");
    }
    const int file = m.virtual_memory.export_file(static_cast<Handle>(handle));
    std::memcpy(out, &file, sizeof file);
    return Error::kSuccess;
  }));
}

int import_file(unsigned long long* handle, void* os_handle, int type) {
  return code(run(Call::kOther, "cuMemImportFromShareableHandle", [&](Machine& m) {
    if (type != kFileDescriptor) throw Refusal(Error::kNotSupported, "not a file descriptor");
    const int file = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
    *handle = static_cast<unsigned long long>(m.virtual_memory.import_file(file));
    return Error::kSuccess;
  }));
}

int address_range(DeviceAddress* start, size_t* bytes, DeviceAddress address) {
  calls::PointerInfo info;
  const Error error = calls::pointer_info("cuMemGetAddressRange", pointer(address), &info);
  if (error != Error::kSuccess) return code(error);
  if (info.kind != calls::PointerInfo::Kind::kDevice) return code(Error::kInvalidValue);
  if (start) *start = info.start;
  if (bytes) *bytes = info.bytes;
  return code(Error::kSuccess);
}

}  // namespace

FAKE_CUDA_API int cuMemGetAllocationGranularity(size_t* granularity,
                                                const AllocationProperties* properties, int) {
  return code(run(Call::kOther, __func__, [&](Machine&) {
    device_of(properties);
    *granularity = fake_cuda::granularity();
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuMemAddressReserve(DeviceAddress* start, size_t bytes, size_t alignment,
                                      DeviceAddress, unsigned long long flags) {
  return code(run(Call::kReserve, __func__, [&](Machine& m) {
    *start = m.virtual_memory.reserve(bytes, alignment, flags);
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuMemAddressFree(DeviceAddress start, size_t bytes) {
  return code(run(Call::kOther, __func__, [&](Machine& m) {
    m.virtual_memory.release_range(start, bytes);
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuMemCreate(unsigned long long* handle, size_t bytes,
                              const AllocationProperties* properties, unsigned long long flags) {
  return code(run(Call::kCreate, __func__, [&](Machine& m) {
    *handle = static_cast<unsigned long long>(
        m.virtual_memory.create(bytes, device_of(properties), flags));
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuMemRelease(unsigned long long handle) {
  return code(run(Call::kRelease, __func__, [&](Machine& m) {
    m.virtual_memory.release(static_cast<Handle>(handle));
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuMemMap(DeviceAddress address, size_t bytes, size_t offset,
                           unsigned long long handle, unsigned long long flags) {
  return code(run(Call::kMap, __func__, [&](Machine& m) {
    m.virtual_memory.map(address, bytes, offset, static_cast<Handle>(handle), flags);
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuMemSetAccess(DeviceAddress address, size_t bytes,
                                 const AccessDescriptor* descriptors, size_t count) {
  return set_access(address, bytes, descriptors, count);
}

FAKE_CUDA_API int cuMemGetAccess(unsigned long long* flags, const Location* location,
                                 DeviceAddress address) {
  return code(run(Call::kOther, __func__, [&](Machine& m) {
    *flags = static_cast<unsigned long long>(m.virtual_memory.access(address, location->id));
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuMemUnmap(DeviceAddress address, size_t bytes) { return unmap(address, bytes); }

FAKE_CUDA_API int cuMemRetainAllocationHandle(unsigned long long* handle, void* address) {
  return code(run(Call::kOther, __func__, [&](Machine& m) {
    *handle = static_cast<unsigned long long>(
        m.virtual_memory.retain(reinterpret_cast<uintptr_t>(address)));
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties,
                                                         unsigned long long handle) {
  return code(run(Call::kOther, __func__, [&](Machine& m) {
    if (!m.virtual_memory.lives(static_cast<Handle>(handle))) {
      throw Refusal(Error::kInvalidValue, "the handle is not alive");
    }
    *properties = {};
    properties->type = kPinned;
    properties->location = {kDevice, m.virtual_memory.device_of(static_cast<Handle>(handle))};
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuMemExportToShareableHandle(void* out, unsigned long long handle, int type,
                                               unsigned long long flags) {
  return export_file(out, handle, type, flags);
}

FAKE_CUDA_API int cuMemImportFromShareableHandle(unsigned long long* handle, void* os_handle,
                                                 int type) {
  return import_file(handle, os_handle, type);
}

FAKE_CUDA_API int cuMemAlloc_v2(DeviceAddress* address, size_t bytes) {
  if (bytes == 0) return code(Error::kInvalidValue);
  void* allocated = nullptr;
  const Error error = calls::allocate(__func__, &allocated, bytes);
  if (error == Error::kSuccess) *address = reinterpret_cast<DeviceAddress>(allocated);
  return code(error);
}

FAKE_CUDA_API int cuMemFree_v2(DeviceAddress address) {
  return code(calls::free(__func__, pointer(address)));
}

FAKE_CUDA_API int cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  return code(calls::memory_info(__func__, free_bytes, total_bytes));
}

FAKE_CUDA_API int cuMemGetAddressRange_v2(DeviceAddress* start, size_t* bytes,
                                          DeviceAddress address) {
  return address_range(start, bytes, address);
}

FAKE_CUDA_API int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  return code(calls::allocate_host(__func__, address, bytes));
}

FAKE_CUDA_API int cuMemAllocHost_v2(void** address, size_t bytes) {
  return code(calls::allocate_host(__func__, address, bytes));
}

FAKE_CUDA_API int cuMemFreeHost(void* address) { return code(calls::free_host(__func__, address)); }

FAKE_CUDA_API int cuMemHostRegister_v2(void* address, size_t bytes, unsigned) {
  return code(calls::register_host(__func__, address, bytes));
}

FAKE_CUDA_API int cuMemHostUnregister(void* address) {
  return code(calls::unregister_host(__func__, address));
}

}  // namespace tidepool::fake_cuda::driver
