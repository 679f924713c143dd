// Driver functions of devices, contexts and errors.
#include <cstdio>
#include <cstring>

#include "tests/support/fake_cuda/core/device_facts.h"
#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/driver/abi.h"
#include "tests/support/fake_cuda/driver/entry_points.h"

namespace tidepool::fake_cuda::driver {
namespace {

bool exists(int device) { return device >= 0 && device < machine().settings.devices; }

// Runs a body where CUDA is initialised, for a function that needs no context.
template <typename Body>
int initialized(const Body& body) {
  const Error error = admit("cuDevice");
  return code(error != Error::kSuccess ? error : body());
}

// The same, for what is said of a device.
template <typename Body>
int of_device(int device, const Body& body) {
  return initialized([&] {
    if (!exists(device)) return Error::kInvalidDevice;
    body();
    return Error::kSuccess;
  });
}

Error set_current(void* wanted) {
  if (wanted && !exists(device_of(wanted))) return Error::kInvalidContext;
  has_context() = wanted != nullptr;
  if (wanted) use_context(device_of(wanted));
  return Error::kSuccess;
}

void* current() { return has_context() ? context(current_device()) : nullptr; }

}  // namespace

FAKE_CUDA_API int cuInit(unsigned flags) {
  if (flags != 0) return code(Error::kInvalidValue);
  const Error error = initialize();
  if (error != Error::kSuccess) return code(error);
  return code(machine().settings.devices == 0 ? Error::kNoDevice : Error::kSuccess);
}

FAKE_CUDA_API int cuGetProcAddress_v2(const char* name, void** function, int version,
                                      unsigned long long flags, int* status) {
  return find_driver_function(name, function, version, flags, status);
}

FAKE_CUDA_API int cuDriverGetVersion(int* version) {
  *version = kVersion;
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDeviceGetCount(int* count) {
  return initialized([&] {
    *count = machine().settings.devices;
    return Error::kSuccess;
  });
}

FAKE_CUDA_API int cuDeviceGet(int* device, int ordinal) {
  return of_device(ordinal, [&] { *device = ordinal; });
}

FAKE_CUDA_API int cuDeviceGetName(char* name, int room, int device) {
  return of_device(device,
                   [&] { std::snprintf(name, static_cast<size_t>(room), "%s", kDeviceName); });
}

FAKE_CUDA_API int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return of_device(device, [&] { *bytes = machine().settings.memory_of(device); });
}

FAKE_CUDA_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return of_device(device, [&] { *value = device_attribute(attribute); });
}

FAKE_CUDA_API int cuDeviceGetPCIBusId(char* text, int room, int device) {
  return of_device(device, [&] {
    std::snprintf(text, static_cast<size_t>(room), "0000:%02x:00.0", device + 1);
  });
}

FAKE_CUDA_API int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!exists(peer)) return code(Error::kInvalidDevice);
  return of_device(device, [&] { *can = device != peer && machine().settings.peers; });
}

FAKE_CUDA_API int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  return of_device(device, [&] {
    if (flags) *flags = 0;
    if (active) *active = is_context_made(device) ? 1 : 0;
  });
}

FAKE_CUDA_API int cuDevicePrimaryCtxRetain(void** retained, int device) {
  return of_device(device, [&] { *retained = context(device); });
}

FAKE_CUDA_API int cuDevicePrimaryCtxRelease_v2(int device) {
  return of_device(device, [] {});
}

FAKE_CUDA_API int cuCtxGetCurrent(void** there) {
  return initialized([&] {
    *there = current();
    return Error::kSuccess;
  });
}

FAKE_CUDA_API int cuCtxGetDevice(int* device) {
  return code(run(Call::kOther, __func__, [&](Machine&) {
    *device = current_device();
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuCtxSetCurrent(void* wanted) {
  return initialized([&] { return set_current(wanted); });
}

namespace {

struct Pushed {
  int device;
  bool has_context;
};

thread_local Pushed pushed[16];
thread_local size_t pushed_count = 0;

}  // namespace

FAKE_CUDA_API int cuCtxPushCurrent_v2(void* wanted) {
  return initialized([&] {
    if (!wanted || pushed_count == std::size(pushed)) return Error::kInvalidValue;
    const Pushed before{current_device(), has_context()};
    const Error error = set_current(wanted);
    if (error == Error::kSuccess) pushed[pushed_count++] = before;
    return error;
  });
}

FAKE_CUDA_API int cuCtxPopCurrent_v2(void** popped) {
  return code(run(Call::kOther, __func__, [&](Machine&) {
    if (pushed_count == 0) throw Refusal(Error::kInvalidContext, "no context was pushed");
    if (popped) *popped = context(current_device());
    --pushed_count;
    current_device() = pushed[pushed_count].device;
    has_context() = pushed[pushed_count].has_context;
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cuGetErrorString(int error, const char** text) {
  *text = description(static_cast<Error>(error));
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuGetErrorName(int error, const char** name) {
  *name = driver_name(static_cast<Error>(error));
  return code(Error::kSuccess);
}

// Nothing is ever logged to the callback.
FAKE_CUDA_API int cuLogsRegisterCallback(void*, void*, void** handle) {
  if (handle) *handle = nullptr;
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuLogsUnregisterCallback(void*) { return code(Error::kSuccess); }

}  // namespace tidepool::fake_cuda::driver
