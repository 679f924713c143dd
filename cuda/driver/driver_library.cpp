#include "cuda/driver/driver_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "allocator/space/address_space.h"

namespace tidepool::device {
namespace {

// As of CUDA 12.0: the last argument says why a function was not found.
using GetProcAddress = driver::Result (*)(const char* name, void** function, int version,
                                          uint64_t flags, int* status);

void check(driver::Result result, const char* call) {
  if (result != driver::kSuccess) throw DeviceError(fmt::format("{} failed: {}", call, result));
}

}  // namespace

DriverLibrary& DriverLibrary::instance() {
  static auto* library = new DriverLibrary;  // a failure is tried again by the next call
  return *library;
}

DriverLibrary::DriverLibrary() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw DeviceError(fmt::format("no CUDA driver: {}", reason != nullptr ? reason : "?"));
  }
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) throw DeviceError("the CUDA driver is older than CUDA 12.0");
  auto find = [get](const char* name, unsigned version) -> void* {
    void* function = nullptr;
    int status = 0;
    const driver::Result result = get(name, &function, static_cast<int>(version), 0, &status);
    return result == driver::kSuccess && status == 0 ? function : nullptr;
  };
  auto require = [&find](const char* name, unsigned version) {
    void* function = find(name, version);
    if (function == nullptr) throw DeviceError(fmt::format("the CUDA driver lacks {}", name));
    return function;
  };
  const auto init = reinterpret_cast<driver::Result (*)(unsigned)>(require("cuInit", 2000));
  device_get_count_ =
      reinterpret_cast<decltype(device_get_count_)>(require("cuDeviceGetCount", 2000));
  device_total_memory_ =
      reinterpret_cast<decltype(device_total_memory_)>(require("cuDeviceTotalMem", 3020));
  check(init(0), "cuInit");
  functions_ = find_driver_functions(find);
}

int DriverLibrary::device_count() const {
  int count = 0;
  check(device_get_count_(&count), "cuDeviceGetCount");
  return count;
}

size_t DriverLibrary::memory_bytes(int ordinal) const {
  size_t bytes = 0;
  check(device_total_memory_(&bytes, ordinal), "cuDeviceTotalMem");
  return bytes;
}

}  // namespace tidepool::device
