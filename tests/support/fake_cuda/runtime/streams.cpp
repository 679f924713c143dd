// Runtime functions of streams, events, captures and graphs.
#include <memory>

#include "tests/support/fake_cuda/core/stream_calls.h"
#include "tests/support/fake_cuda/runtime/abi.h"

namespace tidepool::fake_cuda::runtime {
namespace {

using StreamCallback = void (*)(void* stream, int status, void* data);

struct Callback {
  StreamCallback function;
  void* stream;
  void* data;
};

void call_back(void* callback) {
  const std::unique_ptr<Callback> owned(static_cast<Callback*>(callback));
  owned->function(owned->stream, 0, owned->data);
}

}  // namespace

FAKE_CUDA_API int cudaStreamCreate(void** stream) {
  return finish(calls::stream_create(__func__, stream, 0, 0));
}

FAKE_CUDA_API int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  return finish(calls::stream_create(__func__, stream, flags, 0));
}

FAKE_CUDA_API int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return finish(calls::stream_create(__func__, stream, flags, priority));
}

FAKE_CUDA_API int cudaStreamDestroy(void* stream) {
  return finish(calls::stream_destroy(__func__, stream));
}

FAKE_CUDA_API int cudaStreamQuery(void* stream) {
  return finish(calls::stream_query(__func__, stream));
}

FAKE_CUDA_API int cudaStreamSynchronize(void* stream) {
  return finish(calls::stream_synchronize(__func__, stream));
}

FAKE_CUDA_API int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return finish(calls::stream_wait(__func__, stream, event, flags));
}

FAKE_CUDA_API int cudaStreamGetPriority(void* stream, int* priority) {
  return finish(calls::stream_priority(__func__, stream, priority));
}

FAKE_CUDA_API int cudaStreamAddCallback(void* stream, StreamCallback function, void* data,
                                        unsigned) {
  auto callback = std::make_unique<Callback>(Callback{function, stream, data});
  const Error error = calls::host_function(__func__, stream, call_back, callback.get());
  if (error == Error::kSuccess) callback.release();
  return finish(error);
}

FAKE_CUDA_API int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return finish(calls::host_function(__func__, stream, function, data));
}

FAKE_CUDA_API int cudaEventCreate(void** event) {
  return finish(calls::event_create(__func__, event, 0));
}

FAKE_CUDA_API int cudaEventCreateWithFlags(void** event, unsigned flags) {
  return finish(calls::event_create(__func__, event, flags));
}

FAKE_CUDA_API int cudaEventDestroy(void* event) {
  return finish(calls::event_destroy(__func__, event));
}

FAKE_CUDA_API int cudaEventRecord(void* event, void* stream) {
  return finish(calls::event_record(__func__, event, stream));
}

FAKE_CUDA_API int cudaEventRecordWithFlags(void* event, void* stream, unsigned) {
  return finish(calls::event_record(__func__, event, stream));
}

FAKE_CUDA_API int cudaEventQuery(void* event) {
  return finish(calls::event_query(__func__, event));
}

FAKE_CUDA_API int cudaEventSynchronize(void* event) {
  return finish(calls::event_synchronize(__func__, event));
}

FAKE_CUDA_API int cudaEventElapsedTime(float* milliseconds, void* start, void* end) {
  return finish(calls::event_elapsed(__func__, milliseconds, start, end));
}

FAKE_CUDA_API int cudaStreamBeginCapture(void* stream, int mode) {
  return finish(calls::capture_begin(__func__, stream, mode));
}

FAKE_CUDA_API int cudaStreamEndCapture(void* stream, void** graph) {
  return finish(calls::capture_end(__func__, stream, graph));
}

FAKE_CUDA_API int cudaStreamIsCapturing(void* stream, int* status) {
  calls::CaptureInfo info;
  const Error error = calls::capture_info(__func__, stream, &info);
  *status = info.status;
  return finish(error);
}

// Reports no dependencies: what is captured is a list, not a graph.
FAKE_CUDA_API int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id,
                                           void** graph, const void** dependencies,
                                           const void** edges, size_t* count) {
  calls::CaptureInfo info;
  const Error error = calls::capture_info(__func__, stream, &info);
  *status = info.status;
  if (id) *id = info.id;
  if (graph) *graph = info.graph;
  if (dependencies) *dependencies = nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = 0;
  return finish(error);
}

FAKE_CUDA_API int cudaThreadExchangeStreamCaptureMode(int* mode) {
  return finish(calls::capture_exchange_mode(__func__, mode));
}

FAKE_CUDA_API int cudaGraphInstantiate(void** executable, void* graph, unsigned long long) {
  return finish(calls::graph_instantiate(__func__, executable, graph));
}

FAKE_CUDA_API int cudaGraphInstantiateWithFlags(void** executable, void* graph,
                                                unsigned long long) {
  return finish(calls::graph_instantiate(__func__, executable, graph));
}

FAKE_CUDA_API int cudaGraphLaunch(void* executable, void* stream) {
  return finish(calls::graph_launch(__func__, executable, stream));
}

FAKE_CUDA_API int cudaGraphDestroy(void* graph) {
  return finish(calls::graph_destroy(__func__, graph));
}

FAKE_CUDA_API int cudaGraphExecDestroy(void* executable) {
  return finish(calls::graph_destroy_instantiated(__func__, executable));
}

// The nodes have no handles: a caller that wants more than their number gets null ones.
FAKE_CUDA_API int cudaGraphGetNodes(void* graph, void** nodes, size_t* count) {
  size_t there = 0;
  const Error error = calls::graph_node_count(__func__, graph, &there);
  if (nodes) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = nullptr;
  }
  *count = there;
  return finish(error);
}

}  // namespace tidepool::fake_cuda::runtime
