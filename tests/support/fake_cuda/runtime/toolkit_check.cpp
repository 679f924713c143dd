// What needs the toolkit's headers: the functions that fill large structures, and proof that our
// own declarations have the layouts of CUDA's. Compiled once for each PyTorch version, against the
// headers in its wheel.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "tests/support/fake_cuda/core/device_facts.h"
#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/driver/abi.h"
#include "tests/support/fake_cuda/runtime/abi.h"

namespace tidepool::fake_cuda::runtime {
namespace {

static_assert(sizeof(driver::AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(driver::AllocationProperties, location) ==
              offsetof(CUmemAllocationProp, location));
static_assert(offsetof(driver::AllocationProperties, win32_handle_data) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(sizeof(driver::AccessDescriptor) == sizeof(CUmemAccessDesc));
static_assert(offsetof(driver::AccessDescriptor, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(driver::kDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(driver::kPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(driver::kFileDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(static_cast<int>(Access::kReadWrite) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(sizeof(driver::DeviceAddress) == sizeof(CUdeviceptr));
static_assert(sizeof(Dimensions) == sizeof(dim3));
static_assert(sizeof(PointerAttributes) == sizeof(cudaPointerAttributes));
static_assert(offsetof(PointerAttributes, host_pointer) ==
              offsetof(cudaPointerAttributes, hostPointer));
static_assert(sizeof(LaunchConfiguration) == sizeof(cudaLaunchConfig_t));
static_assert(offsetof(LaunchConfiguration, stream) == offsetof(cudaLaunchConfig_t, stream));
static_assert(sizeof(SharedMemoryHandle) == sizeof(cudaIpcMemHandle_t));
static_assert(sizeof(SharedEventHandle) == sizeof(cudaIpcEventHandle_t));

template <auto kOurs, int kTheirs>
constexpr bool kSame = static_cast<int>(kOurs) == kTheirs;
static_assert(kSame<Error::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY>);
static_assert(kSame<Error::kNotReady, cudaErrorNotReady>);
static_assert(kSame<Error::kInvalidHandle, cudaErrorInvalidResourceHandle>);
static_assert(kSame<Error::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS>);
static_assert(kSame<Error::kHostMemoryAlreadyRegistered, cudaErrorHostMemoryAlreadyRegistered>);
static_assert(kSame<Error::kCaptureUnsupported, cudaErrorStreamCaptureUnsupported>);
static_assert(kSame<Error::kCaptureInvalidated, cudaErrorStreamCaptureInvalidated>);
static_assert(kSame<Error::kCaptureMerge, cudaErrorStreamCaptureMerge>);
static_assert(kSame<Error::kCaptureUnmatched, cudaErrorStreamCaptureUnmatched>);
static_assert(kSame<Error::kCaptureUnjoined, cudaErrorStreamCaptureUnjoined>);
static_assert(kSame<Error::kCaptureIsolation, cudaErrorStreamCaptureIsolation>);
static_assert(kSame<Error::kCaptureImplicit, cudaErrorStreamCaptureImplicit>);
static_assert(kSame<Error::kCapturedEvent, cudaErrorCapturedEvent>);
static_assert(kSame<Error::kCaptureWrongThread, cudaErrorStreamCaptureWrongThread>);
static_assert(kNonBlocking == cudaStreamNonBlocking && kDisableTiming == cudaEventDisableTiming);
static_assert(kSame<CaptureMode::kRelaxed, cudaStreamCaptureModeRelaxed>);

static_assert(device_attribute(cudaDevAttrMultiProcessorCount) == kMultiprocessors);
static_assert(device_attribute(cudaDevAttrComputeCapabilityMajor) == kComputeMajor);
static_assert(device_attribute(cudaDevAttrMaxThreadsPerMultiProcessor) ==
              kThreadsPerMultiprocessor);
static_assert(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) == kSharedPerBlockOptIn);
static_assert(device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) ==
              kSharedPerMultiprocessor);
static_assert(device_attribute(cudaDevAttrMaxBlocksPerMultiprocessor) == kBlocksPerMultiprocessor);
static_assert(device_attribute(cudaDevAttrL2CacheSize) == kL2CacheBytes);
static_assert(device_attribute(cudaDevAttrMemoryPoolsSupported) == 1);
static_assert(device_attribute(cudaDevAttrCooperativeLaunch) == 1);
static_assert(device_attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 1);
static_assert(device_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) ==
              1);

}  // namespace

FAKE_CUDA_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= machine().settings.devices) {
    return static_cast<cudaError_t>(finish(Error::kInvalidDevice));
  }
  *properties = {};
  std::strncpy(properties->name, kDeviceName, sizeof properties->name - 1);
  std::memset(properties->uuid.bytes, device + 1, sizeof properties->uuid.bytes);
  properties->totalGlobalMem = machine().settings.memory_of(device);
  properties->sharedMemPerBlock = kSharedPerBlock;
  properties->sharedMemPerBlockOptin = kSharedPerBlockOptIn;
  properties->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  properties->regsPerBlock = properties->regsPerMultiprocessor = kRegistersPerBlock;
  properties->warpSize = kWarpSize;
  properties->memPitch = kMaxGridX;
  properties->maxThreadsPerBlock = kThreadsPerBlock;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = kThreadsPerBlock;
  properties->maxThreadsDim[2] = kMaxBlockZ;
  properties->maxGridSize[0] = kMaxGridX;
  properties->maxGridSize[1] = properties->maxGridSize[2] = kMaxGridYZ;
  properties->major = kComputeMajor;
  properties->minor = kComputeMinor;
  properties->textureAlignment = kTextureAlignment;
  properties->multiProcessorCount = kMultiprocessors;
  properties->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  properties->maxBlocksPerMultiProcessor = kBlocksPerMultiprocessor;
  properties->l2CacheSize = kL2CacheBytes;
  properties->canMapHostMemory = properties->concurrentKernels = 1;
  properties->unifiedAddressing = properties->streamPrioritiesSupported = 1;
  properties->cooperativeLaunch = properties->memoryPoolsSupported = 1;
  properties->computePreemptionSupported = properties->clusterLaunch = 1;
  properties->asyncEngineCount = 3;
  properties->pciBusID = device + 1;
  for (int* texture : {properties->maxTexture2DLinear, properties->maxTexture3D}) {
    texture[0] = texture[1] = texture[2] = 65536;
  }
  return cudaSuccess;
}

FAKE_CUDA_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = kThreadsPerBlock;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 10 * kComputeMajor + kComputeMinor;
  attributes->maxDynamicSharedSizeBytes = kSharedPerBlock;
  return cudaSuccess;
}

}  // namespace tidepool::fake_cuda::runtime
