// Driver functions of modules, kernels and launches. Kernels do nothing; a launch is enqueued.
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "tests/support/fake_cuda/core/machine.h"
#include "tests/support/fake_cuda/core/memory_calls.h"
#include "tests/support/fake_cuda/core/stream_calls.h"
#include "tests/support/fake_cuda/driver/abi.h"

namespace tidepool::fake_cuda::driver {
namespace {

// A function's handle is its name, kept for ever.
void* function_named(const char* name) {
  static std::mutex mutex;
  static auto* names = new std::map<std::string, int>;
  std::lock_guard lock(mutex);
  return const_cast<char*>(names->try_emplace(name).first->first.c_str());
}

void* any_module() {
  static char module;
  return &module;
}

// A module is loaded or given back, which waits for the device.
int load(const char* function, const std::function<void()>& body) {
  return code(run_unsafe(Call::kOther, function, [&](Machine&) {
    body();
    return Error::kSuccess;
  }));
}

// Runs what needs no machine but a context.
int with_context(const char* function, const std::function<void()>& body) {
  return code(run(Call::kOther, function, [&](Machine&) {
    body();
    return Error::kSuccess;
  }));
}

int attribute_of_function(int attribute) {
  return attribute == 0 ? 1024 : attribute == 4 ? 32 : 0;  // most threads per block; registers
}

}  // namespace

FAKE_CUDA_API int cuModuleLoadData(void** module, const void*) {
  return load(__func__, [&] { *module = any_module(); });
}

FAKE_CUDA_API int cuModuleLoadDataEx(void** module, const void*, unsigned, int*, void**) {
  return load(__func__, [&] { *module = any_module(); });
}

FAKE_CUDA_API int cuModuleLoad(void** module, const char*) {
  return load(__func__, [&] { *module = any_module(); });
}

FAKE_CUDA_API int cuModuleUnload(void*) {
  return load(__func__, [] {});
}

FAKE_CUDA_API int cuModuleGetFunction(void** function, void*, const char* name) {
  return with_context(__func__, [&] { *function = function_named(name); });
}

FAKE_CUDA_API int cuFuncGetAttribute(int* value, int attribute, void*) {
  return with_context(__func__, [&] { *value = attribute_of_function(attribute); });
}

FAKE_CUDA_API int cuFuncSetAttribute(void*, int, int) { return code(Error::kSuccess); }

FAKE_CUDA_API int cuFuncSetCacheConfig(void*, int) { return code(Error::kSuccess); }

FAKE_CUDA_API int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                                 void* stream, void**, void**) {
  const auto threads = 1ULL * grid_x * grid_y * grid_z * block_x * block_y * block_z;
  return code(calls::launch(__func__, stream, static_cast<const char*>(function), threads));
}

FAKE_CUDA_API int cuLaunchCooperativeKernel(void* function, unsigned grid_x, unsigned grid_y,
                                            unsigned grid_z, unsigned block_x, unsigned block_y,
                                            unsigned block_z, unsigned shared_bytes, void* stream,
                                            void** parameters) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        stream, parameters, nullptr);
}

FAKE_CUDA_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads,
                                                              size_t) {
  *blocks = threads > 0 ? std::max(1, 2048 / threads) : 1;
  return code(Error::kSuccess);
}

FAKE_CUDA_API int cuTensorMapEncodeTiled(void* map, int, unsigned, void*, const void*, const void*,
                                         const void*, const void*, int, int, int, int) {
  std::memset(map, 0, 128);
  return code(Error::kSuccess);
}

// Attributes 1 (context) to 9 (device ordinal) that callers ask for.
FAKE_CUDA_API int cuPointerGetAttribute(void* value, int attribute, DeviceAddress address) {
  calls::PointerInfo info;
  const Error error = calls::pointer_info(__func__, pointer(address), &info);
  if (error != Error::kSuccess) return code(error);
  if (info.kind == calls::PointerInfo::Kind::kUnknown) return code(Error::kInvalidValue);
  const bool on_device = info.kind == calls::PointerInfo::Kind::kDevice;
  const int memory_type = on_device ? 2 : 1;
  switch (attribute) {
    case 2:
      std::memcpy(value, &memory_type, sizeof memory_type);
      break;
    case 3:
    case 4:
      std::memcpy(value, &address, sizeof address);
      break;
    case 9:
      std::memcpy(value, &info.device, sizeof info.device);
      break;
    default:
      return code(Error::kNotSupported);
  }
  return code(Error::kSuccess);
}

}  // namespace tidepool::fake_cuda::driver
