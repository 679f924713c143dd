// cuDNN: handles, versions, sizes of workspaces. Descriptors of the older functions, and what
// computes, come from generate.py; the graph functions are in dnn_backend.cpp.
#include <cudnn.h>

#include "tests/support/fake_cuda/core/export.h"
#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/math/handle.h"

namespace tidepool::fake_cuda::math {

FAKE_CUDA_API cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle);
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Handle*>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = static_cast<cudaStream_t>(reinterpret_cast<Handle*>(handle)->stream);
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API size_t cudnnGetVersion() { return CUDNN_VERSION; }
FAKE_CUDA_API size_t cudnnGetCudartVersion() { return 13000; }

FAKE_CUDA_API cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION   ? CUDNN_MAJOR
           : type == MINOR_VERSION ? CUDNN_MINOR
                                   : CUDNN_PATCHLEVEL;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "an error of the stand-in device";
}

FAKE_CUDA_API void cudnnGetLastErrorString(char* text, size_t room) {
  if (room != 0) text[0] = 0;
}

FAKE_CUDA_API cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* bytes) {
  *bytes = machine().settings.dnn_workspace_bytes;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnActivationDescriptor_t,
    size_t* bytes) {
  *bytes = machine().settings.dnn_workspace_bytes;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnActivationDescriptor_t,
    const cudnnTensorDescriptor_t, size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_CUDA_API cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t, size_t* bytes) {
  *bytes = size_t{1} << 20;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace tidepool::fake_cuda::math
