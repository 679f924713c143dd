// NVML: what PyTorch asks of it. Knows nothing of the machine but how many devices there are.
#include <cstring>

#include "tests/support/fake_cuda/core/export.h"
#include "tests/support/fake_cuda/core/machine.h"

namespace tidepool::fake_cuda {
namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;

}  // namespace

FAKE_CUDA_API int nvmlInit() { return kSuccess; }
FAKE_CUDA_API int nvmlInit_v2() { return kSuccess; }
FAKE_CUDA_API int nvmlShutdown() { return kSuccess; }

FAKE_CUDA_API int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(machine().settings.devices);
  return kSuccess;
}

FAKE_CUDA_API int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  static char the_device;
  *device = &the_device;
  return kSuccess;
}

FAKE_CUDA_API int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) {
  return kNotSupported;
}

FAKE_CUDA_API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return kNotSupported;
}

FAKE_CUDA_API int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}

FAKE_CUDA_API int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kSuccess;
}

// Success with a state of "not supported": PyTorch does not take an error for an answer.
FAKE_CUDA_API int nvmlDeviceGetGpuFabricInfoV(void*, void* info) {
  constexpr size_t kVersionBytes = 4;  // set by the caller, which says how large the rest is
  constexpr size_t kRestBytes = 25;    // of version 2: cluster, status, clique, state
  std::memset(static_cast<char*>(info) + kVersionBytes, 0, kRestBytes);
  return kSuccess;
}

}  // namespace tidepool::fake_cuda
