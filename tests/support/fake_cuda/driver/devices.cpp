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

int set_current(void* wanted) {
  if (!wanted) return code(Error::kSuccess);
  if (!exists(device_of(wanted))) return code(Error::kInvalidDevice);
  current_device() = device_of(wanted);
  return code(Error::kSuccess);
}

}  // namespace

FAKE_CUDA_API int cuInit(unsigned) {
  return code(machine().settings.devices == 0 ? Error::kNoDevice : Error::kSuccess);
}

// Versions are not told apart: the stand-in has the newest of each function only.
FAKE_CUDA_API int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long,
                                      int* status) {
  constexpr int kNotFound = 1;
  *function = driver_function(name);
  if (status) *status = *function ? 0 : kNotFound;
  return code(*function ? Error::kSuccess : Error::kSymbolNotFound);
}

FAKE_CUDA_API int cuDriverGetVersion(int* version) {
  *version = kVersion;
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDeviceGetCount(int* count) {
  *count = machine().settings.devices;
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDeviceGet(int* device, int ordinal) {
  if (!exists(ordinal)) return code(Error::kInvalidDevice);
  *device = ordinal;
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDeviceGetName(char* name, int room, int device) {
  if (!exists(device)) return code(Error::kInvalidDevice);
  std::snprintf(name, static_cast<size_t>(room), "%s", kDeviceName);
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  if (!exists(device)) return code(Error::kInvalidDevice);
  *bytes = machine().settings.memory_of(device);
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (!exists(device)) return code(Error::kInvalidDevice);
  *value = device_attribute(attribute);
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDeviceGetPCIBusId(char* text, int room, int device) {
  if (!exists(device)) return code(Error::kInvalidDevice);
  std::snprintf(text, static_cast<size_t>(room), "0000:%02x:00.0", device + 1);
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!exists(device) || !exists(peer)) return code(Error::kInvalidDevice);
  *can = device != peer && machine().settings.peers;
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  if (!exists(device)) return code(Error::kInvalidDevice);
  if (flags) *flags = 0;
  if (active) *active = 1;
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDevicePrimaryCtxRetain(void** retained, int device) {
  if (!exists(device)) return code(Error::kInvalidDevice);
  *retained = context(device);
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuDevicePrimaryCtxRelease_v2(int device) {
  return code(exists(device) ? Error::kSuccess : Error::kInvalidDevice);
}

FAKE_CUDA_API int cuCtxGetCurrent(void** current) {
  *current = context(current_device());
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuCtxGetDevice(int* device) {
  *device = current_device();
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuCtxSetCurrent(void* wanted) { return set_current(wanted); }

namespace {

thread_local int pushed[16];
thread_local size_t pushed_count = 0;

}  // namespace

FAKE_CUDA_API int cuCtxPushCurrent_v2(void* wanted) {
  if (pushed_count == std::size(pushed)) return code(Error::kInvalidValue);
  const int before = current_device();
  const int result = set_current(wanted);
  if (result == 0) pushed[pushed_count++] = before;
  return result;
}

FAKE_CUDA_API int cuCtxPopCurrent_v2(void** popped) {
  if (pushed_count == 0) return code(Error::kInvalidValue);
  if (popped) *popped = context(current_device());
  current_device() = pushed[--pushed_count];
  return code(Error::kSuccess);
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
