#include "tests/support/fake_cuda/core/error.h"

namespace tidepool::fake_cuda {
namespace {

struct Text {
  Error error;
  const char* driver_name;
  const char* runtime_name;
  const char* description;
};

constexpr Text kTexts[] = {
    {Error::kSuccess, "CUDA_SUCCESS", "cudaSuccess", "no error"},
    {Error::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "cudaErrorInvalidValue", "invalid argument"},
    {Error::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "out of memory"},
    {Error::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "cudaErrorInitializationError",
     "initialization error"},
    {Error::kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "cudaErrorCudartUnloading",
     "driver shutting down"},
    {Error::kMissingConfiguration, "CUDA_ERROR_UNKNOWN", "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
    {Error::kNoDevice, "CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice",
     "no CUDA-capable device is detected"},
    {Error::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "cudaErrorInvalidDevice",
     "invalid device ordinal"},
    {Error::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "cudaErrorDeviceUninitialized",
     "invalid device context"},
    {Error::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "cudaErrorInvalidResourceHandle",
     "invalid resource handle"},
    {Error::kSymbolNotFound, "CUDA_ERROR_NOT_FOUND", "cudaErrorSymbolNotFound",
     "named symbol not found"},
    {Error::kNotReady, "CUDA_ERROR_NOT_READY", "cudaErrorNotReady", "device not ready"},
    {Error::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {Error::kAssert, "CUDA_ERROR_ASSERT", "cudaErrorAssert", "device-side assert triggered"},
    {Error::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFailure",
     "unspecified launch failure"},
    {Error::kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "cudaErrorPeerAccessUnsupported", "peer access is not supported between these two devices"},
    {Error::kPeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {Error::kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {Error::kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {Error::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "cudaErrorNotPermitted",
     "operation not permitted"},
    {Error::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "cudaErrorNotSupported",
     "operation not supported"},
    {Error::kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {Error::kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {Error::kCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {Error::kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"},
    {Error::kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {Error::kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"},
    {Error::kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {Error::kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT", "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {Error::kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {Error::kUnknown, "CUDA_ERROR_UNKNOWN", "cudaErrorUnknown", "unknown error"},
};

const Text* find(Error error) {
  for (const Text& text : kTexts) {
    if (text.error == error) return &text;
  }
  return nullptr;
}

constexpr const char* kUnrecognized = "unrecognized error code";

}  // namespace

bool is_sticky(Error error) {
  switch (error) {
    case Error::kIllegalAddress:
    case Error::kLaunchTimeout:
    case Error::kAssert:
    case Error::kHardwareStackError:
    case Error::kIllegalInstruction:
    case Error::kMisalignedAddress:
    case Error::kInvalidAddressSpace:
    case Error::kInvalidProgramCounter:
    case Error::kLaunchFailed:
      return true;
    default:
      return false;
  }
}

const char* driver_name(Error error) {
  const Text* text = find(error);
  return text ? text->driver_name : kUnrecognized;
}

const char* runtime_name(Error error) {
  const Text* text = find(error);
  return text ? text->runtime_name : kUnrecognized;
}

const char* description(Error error) {
  const Text* text = find(error);
  return text ? text->description : kUnrecognized;
}

}  // namespace tidepool::fake_cuda
