// Driver functions of streams and events.
#include "tests/support/fake_cuda/core/stream_calls.h"
#include "tests/support/fake_cuda/driver/abi.h"

namespace tidepool::fake_cuda::driver {

FAKE_CUDA_API int cuStreamCreate(void** stream, unsigned flags) {
  return code(calls::stream_create(__func__, stream, flags, 0));
}

FAKE_CUDA_API int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return code(calls::stream_create(__func__, stream, flags, priority));
}

FAKE_CUDA_API int cuStreamDestroy_v2(void* stream) {
  return code(calls::stream_destroy(__func__, stream));
}

FAKE_CUDA_API int cuStreamQuery(void* stream) {
  return code(calls::stream_query(__func__, stream));
}

FAKE_CUDA_API int cuStreamSynchronize(void* stream) {
  return code(calls::stream_synchronize(__func__, stream));
}

FAKE_CUDA_API int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return code(calls::stream_wait(__func__, stream, event, flags));
}

FAKE_CUDA_API int cuStreamGetPriority(void* stream, int* priority) {
  return code(calls::stream_priority(__func__, stream, priority));
}

FAKE_CUDA_API int cuStreamGetFlags(void* stream, unsigned* flags) {
  return code(calls::stream_flags(__func__, stream, flags));
}

FAKE_CUDA_API int cuStreamGetId(void* stream, unsigned long long* id) {
  return code(calls::stream_id(__func__, stream, id));
}

FAKE_CUDA_API int cuLaunchHostFunc(void* stream, void (*callback)(void*), void* data) {
  return code(calls::host_function(__func__, stream, callback, data));
}

FAKE_CUDA_API int cuCtxSynchronize() { return code(calls::device_synchronize(__func__)); }

FAKE_CUDA_API int cuEventCreate(void** event, unsigned flags) {
  return code(calls::event_create(__func__, event, flags));
}

FAKE_CUDA_API int cuEventDestroy_v2(void* event) {
  return code(calls::event_destroy(__func__, event));
}

FAKE_CUDA_API int cuEventRecord(void* event, void* stream) {
  return code(calls::event_record(__func__, event, stream));
}

FAKE_CUDA_API int cuEventRecordWithFlags(void* event, void* stream, unsigned) {
  return code(calls::event_record(__func__, event, stream));
}

FAKE_CUDA_API int cuEventQuery(void* event) { return code(calls::event_query(__func__, event)); }

FAKE_CUDA_API int cuEventSynchronize(void* event) {
  return code(calls::event_synchronize(__func__, event));
}

FAKE_CUDA_API int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  return code(calls::event_elapsed(__func__, milliseconds, start, end));
}

FAKE_CUDA_API int cuEventElapsedTime_v2(float* milliseconds, void* start, void* end) {
  return code(calls::event_elapsed(__func__, milliseconds, start, end));
}

}  // namespace tidepool::fake_cuda::driver
