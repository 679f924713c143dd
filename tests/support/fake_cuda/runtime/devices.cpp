// Runtime functions of devices and errors.
#include <dlfcn.h>

#include <cstdio>

#include "tests/support/fake_cuda/core/device_facts.h"
#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/core/stream_calls.h"
#include "tests/support/fake_cuda/driver/entry_points.h"
#include "tests/support/fake_cuda/runtime/abi.h"

namespace tidepool::fake_cuda::runtime {
namespace {

bool exists(int device) { return device >= 0 && device < machine().settings.devices; }

// Whether a device exists, for a function that needs no context of it.
int check(int device) {
  const Error error = initialize();
  if (error != Error::kSuccess) return finish(error);
  return finish(exists(device) ? Error::kSuccess : Error::kInvalidDevice);
}

}  // namespace

Error& last_error() {
  static thread_local Error error = Error::kSuccess;
  return error;
}

FAKE_CUDA_API int cudaGetDeviceCount(int* count) {
  *count = 0;
  if (const Error error = initialize(); error != Error::kSuccess) return finish(error);
  *count = machine().settings.devices;
  return finish(*count == 0 ? Error::kNoDevice : Error::kSuccess);
}

FAKE_CUDA_API int cudaGetDevice(int* device) {
  *device = current_device();
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int cudaSetDevice(int device) {
  if (!exists(device)) return finish(Error::kInvalidDevice);
  const Error error = admit(__func__);
  if (error == Error::kSuccess) use_context(device);
  return finish(error);
}

FAKE_CUDA_API int cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  *value = device_attribute(attribute);
  return check(device);
}

FAKE_CUDA_API int cudaDeviceGetPCIBusId(char* text, int room, int device) {
  std::snprintf(text, static_cast<size_t>(room), "0000:%02x:00.0", device + 1);
  return check(device);
}

FAKE_CUDA_API int cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  if (lowest) *lowest = kLowestPriority;
  if (highest) *highest = kHighestPriority;
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int cudaDeviceSynchronize() { return finish(calls::device_synchronize(__func__)); }

FAKE_CUDA_API int cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = exists(device) && exists(peer) && device != peer && machine().settings.peers;
  return finish(exists(device) && exists(peer) ? Error::kSuccess : Error::kInvalidDevice);
}

FAKE_CUDA_API int cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (!exists(peer) || peer == current_device()) return finish(Error::kInvalidDevice);
  return finish(run(Call::kOther, __func__, [&](Machine& m) {
    if (!m.settings.peers) return Error::kPeerAccessUnsupported;
    return m.peers.emplace(current_device(), peer).second ? Error::kSuccess
                                                          : Error::kPeerAccessAlreadyEnabled;
  }));
}

FAKE_CUDA_API int cudaGetLastError() {
  const Error error = last_error();
  if (!is_sticky(error)) last_error() = Error::kSuccess;
  return static_cast<int>(error);
}

FAKE_CUDA_API int cudaPeekAtLastError() { return static_cast<int>(last_error()); }

FAKE_CUDA_API const char* cudaGetErrorString(int error) {
  return description(static_cast<Error>(error));
}

FAKE_CUDA_API const char* cudaGetErrorName(int error) {
  return runtime_name(static_cast<Error>(error));
}

FAKE_CUDA_API int cudaProfilerStart() { return finish(Error::kSuccess); }
FAKE_CUDA_API int cudaProfilerStop() { return finish(Error::kSuccess); }

// Also finds functions that the stand-in does not have, where its library carries a stub that says
// so and aborts.
FAKE_CUDA_API int cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                   unsigned version, unsigned long long flags,
                                                   int* status) {
  constexpr int kFound = 0;
  constexpr int kNotFound = 1;
  int answer = kFound;
  const int error = find_driver_function(name, function, static_cast<int>(version), flags, &answer);
  if (answer == kNotFound) {
    if (void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
      *function = dlsym(library, name);
      dlclose(library);
    }
    if (*function) answer = kFound;
  }
  if (status) *status = answer;
  return finish(static_cast<Error>(error));
}

}  // namespace tidepool::fake_cuda::runtime
