// Runtime functions of memory: allocation, copies, fills, pools, sharing.
#include <cstring>

#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/core/memory_calls.h"
#include "tests/support/fake_cuda/core/stream_calls.h"
#include "tests/support/fake_cuda/runtime/abi.h"

namespace tidepool::fake_cuda::runtime {

using calls::Wait;

FAKE_CUDA_API int cudaMalloc(void** address, size_t bytes) {
  return finish(calls::allocate(__func__, address, bytes));
}

FAKE_CUDA_API int cudaFree(void* address) { return finish(calls::free(__func__, address)); }

FAKE_CUDA_API int cudaMallocAsync(void** address, size_t bytes, void*) {
  return finish(calls::allocate(__func__, address, bytes));
}

FAKE_CUDA_API int cudaFreeAsync(void* address, void* stream) {
  return finish(calls::free_in_order(__func__, address, stream));
}

FAKE_CUDA_API int cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return finish(calls::memory_info(__func__, free_bytes, total_bytes));
}

FAKE_CUDA_API int cudaHostAlloc(void** address, size_t bytes, unsigned) {
  return finish(calls::allocate_host(__func__, address, bytes));
}

FAKE_CUDA_API int cudaMallocHost(void** address, size_t bytes) {
  return finish(calls::allocate_host(__func__, address, bytes));
}

FAKE_CUDA_API int cudaFreeHost(void* address) {
  return finish(calls::free_host(__func__, address));
}

FAKE_CUDA_API int cudaHostRegister(void* address, size_t bytes, unsigned) {
  return finish(calls::register_host(__func__, address, bytes));
}

FAKE_CUDA_API int cudaHostUnregister(void* address) {
  return finish(calls::unregister_host(__func__, address));
}

FAKE_CUDA_API int cudaPointerGetAttributes(PointerAttributes* attributes, const void* address) {
  calls::PointerInfo info;
  const Error error = calls::pointer_info(__func__, address, &info);
  *attributes = {};
  void* const pointer = const_cast<void*>(address);
  switch (info.kind) {
    case calls::PointerInfo::Kind::kUnknown:
      attributes->device = -2;  // cudaInvalidDeviceId
      attributes->host_pointer = pointer;
      break;
    case calls::PointerInfo::Kind::kHost:
      attributes->type = 1;
      attributes->device = current_device();
      attributes->device_pointer = attributes->host_pointer = pointer;
      break;
    case calls::PointerInfo::Kind::kDevice:
      attributes->type = 2;
      attributes->device = info.device;
      attributes->device_pointer = pointer;
      break;
  }
  return finish(error);
}

FAKE_CUDA_API int cudaMemcpy(void* to, const void* from, size_t bytes, int) {
  return finish(calls::copy(__func__, to, from, bytes, nullptr, Wait::kYes));
}

FAKE_CUDA_API int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, void* stream) {
  return finish(calls::copy(__func__, to, from, bytes, stream, Wait::kNo));
}

FAKE_CUDA_API int cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                      size_t bytes, void* stream) {
  return finish(calls::copy_between(__func__, to, to_device, from, from_device, bytes, stream));
}

FAKE_CUDA_API int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                    size_t row_bytes, size_t rows, int, void* stream) {
  return finish(calls::copy_rows(__func__, to, to_pitch, from, from_pitch, row_bytes, rows, stream,
                                 Wait::kNo));
}

FAKE_CUDA_API int cudaMemset(void* to, int value, size_t bytes) {
  return finish(
      calls::fill(__func__, to, static_cast<unsigned char>(value), 1, bytes, nullptr, Wait::kNo));
}

FAKE_CUDA_API int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  return finish(
      calls::fill(__func__, to, static_cast<unsigned char>(value), 1, bytes, stream, Wait::kNo));
}

// One pool per device, which keeps nothing: its handle is the device's number.
FAKE_CUDA_API int cudaDeviceGetDefaultMemPool(void** pool, int device) {
  *pool = reinterpret_cast<void*>(uintptr_t{0x3000} + device);
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int cudaMemPoolGetAttribute(void* pool, int attribute, void* value) {
  constexpr int kReusePolicies = 3;  // 1 to 3 are ints, the rest sizes
  if (attribute <= kReusePolicies) {
    *static_cast<int*>(value) = 1;
    return finish(Error::kSuccess);
  }
  const int device = static_cast<int>(reinterpret_cast<uintptr_t>(pool) - 0x3000);
  return finish(run(Call::kOther, __func__, [&](Machine& m) {
    const PhysicalMemory& memory = m.memory(device);
    uint64_t bytes = 0;  // 4: what the pool keeps
    if (attribute == 5 || attribute == 7) bytes = memory.used_bytes();
    if (attribute == 6 || attribute == 8) bytes = memory.used_peak_bytes();
    std::memcpy(value, &bytes, sizeof bytes);
    return Error::kSuccess;
  }));
}

FAKE_CUDA_API int cudaMemPoolSetAttribute(void*, int, void*) { return finish(Error::kSuccess); }
FAKE_CUDA_API int cudaMemPoolSetAccess(void*, const void*, size_t) {
  return finish(Error::kSuccess);
}
FAKE_CUDA_API int cudaMemPoolTrimTo(void*, size_t) { return finish(Error::kSuccess); }

FAKE_CUDA_API int cudaIpcGetMemHandle(SharedMemoryHandle* handle, void* address) {
  return finish(calls::share(__func__, address, handle->ticket));
}

FAKE_CUDA_API int cudaIpcOpenMemHandle(void** address, SharedMemoryHandle handle, unsigned) {
  return finish(calls::open_shared(__func__, address, handle.ticket));
}

FAKE_CUDA_API int cudaIpcCloseMemHandle(void* address) {
  return finish(calls::close_shared(__func__, address));
}

// Order between processes is not kept: an opened event is one that is always over.
FAKE_CUDA_API int cudaIpcGetEventHandle(SharedEventHandle* handle, void*) {
  *handle = {};
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int cudaIpcOpenEventHandle(void** event, SharedEventHandle) {
  return finish(calls::event_create(__func__, event, 0));
}

}  // namespace tidepool::fake_cuda::runtime
