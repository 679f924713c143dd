#include "cuda/driver/driver_functions.h"

#include <map>

#include "tests/cuda/fake_driver.h"
#include "tests/support/catch.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define TIDEPOOL_HAS_CUDA_HEADER 1
#endif

namespace tidepool::device {
namespace {

TEST_CASE("every function is looked up by its name, as of a version") {
  test::FakeDriver fake;
  std::map<std::string, unsigned> asked;
  FunctionFinder finder = fake.finder();
  DriverFunctions functions = find_driver_functions([&](const char* name, unsigned version) {
    asked[name] = version;
    return finder(name, version);
  });
  CHECK(functions.missing.empty());
  CHECK(functions.missing_virtual.empty());
  CHECK(functions.missing_kernels.empty());
  CHECK(functions.MemMap != nullptr);
  CHECK(asked.at("cuMemMap") == 10020);
  CHECK(asked.at("cuCtxPushCurrent") == 4000);  // of its version 2
}

TEST_CASE("what is missing is named, by what it is needed for") {
  test::FakeDriver fake;
  DriverFunctions functions = find_driver_functions(
      fake.finder({"cuMemUnmap", "cuEventRecord", "cuLaunchKernel", "cuStreamWaitEvent"}));
  CHECK(functions.missing == std::vector<std::string>{"cuStreamWaitEvent", "cuEventRecord"});
  CHECK(functions.missing_virtual == std::vector<std::string>{"cuMemUnmap"});
  CHECK(functions.missing_kernels == std::vector<std::string>{"cuLaunchKernel"});
}

#ifdef TIDEPOOL_HAS_CUDA_HEADER
TEST_CASE("our declarations are those of the toolkit") {
  CHECK(sizeof(driver::DevicePointer) == sizeof(CUdeviceptr));
  CHECK(sizeof(driver::AllocationHandle) == sizeof(CUmemGenericAllocationHandle));
  CHECK(sizeof(driver::Result) == sizeof(CUresult));
  CHECK(sizeof(driver::Device) == sizeof(CUdevice));
  CHECK(sizeof(driver::AllocationProperties) == sizeof(CUmemAllocationProp));
  CHECK(offsetof(driver::AllocationProperties, requested_handle_types) ==
        offsetof(CUmemAllocationProp, requestedHandleTypes));
  CHECK(offsetof(driver::AllocationProperties, location) ==
        offsetof(CUmemAllocationProp, location));
  CHECK(offsetof(driver::AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
  CHECK(sizeof(driver::AccessDescription) == sizeof(CUmemAccessDesc));
  CHECK(offsetof(driver::AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
  CHECK(driver::kSuccess == CUDA_SUCCESS);
  CHECK(driver::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(driver::kNotReady == CUDA_ERROR_NOT_READY);
  CHECK(driver::kVirtualMemorySupported == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  CHECK(driver::kMultiprocessorCount == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  CHECK(driver::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
  CHECK(driver::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
  CHECK(driver::kAllocationPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK(driver::kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE);
  CHECK(driver::kAccessReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(driver::kHandleNone == CU_MEM_HANDLE_TYPE_NONE);
  CHECK(driver::kHandleFileDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(driver::kGranularityMinimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}
#endif

}  // namespace
}  // namespace tidepool::device
