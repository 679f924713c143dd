// Driver functions of captures and graphs.
#include "tests/support/fake_cuda/core/stream_calls.h"
#include "tests/support/fake_cuda/driver/abi.h"

namespace tidepool::fake_cuda::driver {

FAKE_CUDA_API int cuThreadExchangeStreamCaptureMode(int* mode) {
  return code(calls::capture_exchange_mode(__func__, mode));
}

FAKE_CUDA_API int cuStreamBeginCapture_v2(void* stream, int mode) {
  return code(calls::capture_begin(__func__, stream, mode));
}

FAKE_CUDA_API int cuStreamEndCapture(void* stream, void** graph) {
  return code(calls::capture_end(__func__, stream, graph));
}

FAKE_CUDA_API int cuStreamIsCapturing(void* stream, int* status) {
  calls::CaptureInfo info;
  const Error error = calls::capture_info(__func__, stream, &info);
  *status = info.status;
  return code(error);
}

FAKE_CUDA_API int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return code(calls::graph_instantiate(__func__, executable, graph));
}

FAKE_CUDA_API int cuGraphLaunch(void* executable, void* stream) {
  return code(calls::graph_launch(__func__, executable, stream));
}

FAKE_CUDA_API int cuGraphDestroy(void* graph) {
  return code(calls::graph_destroy(__func__, graph));
}

FAKE_CUDA_API int cuGraphExecDestroy(void* executable) {
  return code(calls::graph_destroy_instantiated(__func__, executable));
}

}  // namespace tidepool::fake_cuda::driver
