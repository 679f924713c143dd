#include "cuda/kernels/check_kernels.h"

#include <algorithm>

#include "allocator/base/fingerprint.h"

namespace tidepool::device {

namespace {

constexpr unsigned kThreads = 256;
// Blocks that a multiprocessor runs at once, about.
constexpr unsigned kBlocksPerMultiprocessor = 8;

}  // namespace

std::unique_ptr<CheckKernels> CheckKernels::load(Driver& driver,
                                                 std::span<const unsigned char> image,
                                                 std::string* why_not) {
  if (image.empty()) {
    *why_not = "built without CUDA's compiler";
    return nullptr;
  }
  if (!driver.call().missing_kernels.empty()) {
    *why_not = "the CUDA driver lacks " + driver.call().missing_kernels.front();
    return nullptr;
  }
  std::unique_ptr<CheckKernels> kernels(new CheckKernels(driver));
  try {
    kernels->prepare(image);
  } catch (const DeviceError& error) {
    *why_not = error.what();
    return nullptr;
  }
  return kernels;
}

void CheckKernels::prepare(std::span<const unsigned char> image) {
  Driver::Scope scope(driver_);
  const DriverFunctions& call = driver_.call();
  driver_.check(call.ModuleLoadData(&module_, image.data()), "cuModuleLoadData");
  driver_.check(call.ModuleGetFunction(&fingerprint_, module_, "tidepool_fingerprint"),
                "cuModuleGetFunction");
  driver_.check(call.ModuleGetFunction(&poison_, module_, "tidepool_poison"),
                "cuModuleGetFunction");
  driver_.check(call.MemAlloc(&sum_, sizeof(uint64_t)), "cuMemAlloc");
  const int multiprocessors = driver_.attribute(driver::kMultiprocessorCount);
  blocks_at_most_ = static_cast<unsigned>(std::max(1, multiprocessors)) * kBlocksPerMultiprocessor;
}

CheckKernels::~CheckKernels() {
  // At the end of a process the driver may have gone first; then nothing is left to give back.
  if (module_ == nullptr) return;
  try {
    Driver::Scope scope(driver_);
    if (sum_ != 0) (void)driver_.call().MemFree(sum_);
    (void)driver_.call().ModuleUnload(module_);
  } catch (const DeviceError&) {
    // See above.
  }
}

void CheckKernels::launch(driver::Function kernel, size_t words, driver::Stream stream,
                          void** arguments) {
  const size_t wanted = (words + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(std::clamp<size_t>(wanted, 1, blocks_at_most_));
  driver_.check(driver_.call().LaunchKernel(kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream,
                                            arguments, nullptr),
                "cuLaunchKernel");
}

uint64_t CheckKernels::fingerprint(Address address, size_t bytes, driver::Stream stream) {
  const MutexLock lock(mutex_);
  Driver::Scope scope(driver_);
  const DriverFunctions& call = driver_.call();
  driver_.check(call.MemsetD8Async(sum_, 0, sizeof(uint64_t), stream), "cuMemsetD8Async");
  driver::DevicePointer start = address.value;
  unsigned long long count = bytes;
  void* arguments[] = {&start, &count, &sum_};
  launch(fingerprint_, bytes / 8 + 1, stream, arguments);
  uint64_t sum = 0;
  driver_.check(call.MemcpyDtoHAsync(&sum, sum_, sizeof sum, stream), "cuMemcpyDtoHAsync");
  driver_.check(call.StreamSynchronize(stream), "cuStreamSynchronize");
  return finished_fingerprint(sum, bytes);
}

void CheckKernels::poison(Address address, size_t bytes, unsigned char value,
                          driver::Stream stream) {
  const MutexLock lock(mutex_);
  Driver::Scope scope(driver_);
  driver::DevicePointer start = address.value;
  unsigned long long count = bytes;
  unsigned long long pattern = value * 0x0101010101010101ull;
  void* arguments[] = {&start, &count, &pattern};
  launch(poison_, bytes / 8 + 1, stream, arguments);
}

}  // namespace tidepool::device
