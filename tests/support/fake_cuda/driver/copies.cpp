// Driver functions of copies and fills.
#include "tests/support/fake_cuda/core/memory_calls.h"
#include "tests/support/fake_cuda/driver/abi.h"

namespace tidepool::fake_cuda::driver {

using calls::Wait;

FAKE_CUDA_API int cuMemcpyAsync(DeviceAddress to, DeviceAddress from, size_t bytes, void* stream) {
  return code(calls::copy(__func__, pointer(to), pointer(from), bytes, stream, Wait::kNo));
}

FAKE_CUDA_API int cuMemcpyHtoDAsync_v2(DeviceAddress to, const void* from, size_t bytes,
                                       void* stream) {
  return code(calls::copy(__func__, pointer(to), from, bytes, stream, Wait::kNo));
}

FAKE_CUDA_API int cuMemcpyDtoHAsync_v2(void* to, DeviceAddress from, size_t bytes, void* stream) {
  return code(calls::copy(__func__, to, pointer(from), bytes, stream, Wait::kNo));
}

FAKE_CUDA_API int cuMemcpyDtoDAsync_v2(DeviceAddress to, DeviceAddress from, size_t bytes,
                                       void* stream) {
  return code(calls::copy(__func__, pointer(to), pointer(from), bytes, stream, Wait::kNo));
}

FAKE_CUDA_API int cuMemcpyPeerAsync(DeviceAddress to, void* to_context, DeviceAddress from,
                                    void* from_context, size_t bytes, void* stream) {
  return code(calls::copy_between(__func__, pointer(to), device_of(to_context), pointer(from),
                                  device_of(from_context), bytes, stream));
}

FAKE_CUDA_API int cuMemcpy(DeviceAddress to, DeviceAddress from, size_t bytes) {
  return code(calls::copy(__func__, pointer(to), pointer(from), bytes, nullptr, Wait::kYes));
}

FAKE_CUDA_API int cuMemcpyHtoD_v2(DeviceAddress to, const void* from, size_t bytes) {
  return code(calls::copy(__func__, pointer(to), from, bytes, nullptr, Wait::kYes));
}

FAKE_CUDA_API int cuMemcpyDtoH_v2(void* to, DeviceAddress from, size_t bytes) {
  return code(calls::copy(__func__, to, pointer(from), bytes, nullptr, Wait::kYes));
}

FAKE_CUDA_API int cuMemcpyDtoD_v2(DeviceAddress to, DeviceAddress from, size_t bytes) {
  return code(calls::copy(__func__, pointer(to), pointer(from), bytes, nullptr, Wait::kYes));
}

FAKE_CUDA_API int cuMemsetD8Async(DeviceAddress to, unsigned char value, size_t count,
                                  void* stream) {
  return code(calls::fill(__func__, pointer(to), value, 1, count, stream, Wait::kNo));
}

FAKE_CUDA_API int cuMemsetD16Async(DeviceAddress to, unsigned short value, size_t count,
                                   void* stream) {
  return code(calls::fill(__func__, pointer(to), value, 2, count, stream, Wait::kNo));
}

FAKE_CUDA_API int cuMemsetD32Async(DeviceAddress to, unsigned value, size_t count, void* stream) {
  return code(calls::fill(__func__, pointer(to), value, 4, count, stream, Wait::kNo));
}

FAKE_CUDA_API int cuMemsetD8_v2(DeviceAddress to, unsigned char value, size_t count) {
  return code(calls::fill(__func__, pointer(to), value, 1, count, nullptr, Wait::kYes));
}

FAKE_CUDA_API int cuMemsetD32_v2(DeviceAddress to, unsigned value, size_t count) {
  return code(calls::fill(__func__, pointer(to), value, 4, count, nullptr, Wait::kYes));
}

FAKE_CUDA_API int cuStreamWriteValue32_v2(void* stream, DeviceAddress to, unsigned value,
                                          unsigned) {
  return code(calls::fill(__func__, pointer(to), value, 4, 1, stream, Wait::kNo));
}

}  // namespace tidepool::fake_cuda::driver
