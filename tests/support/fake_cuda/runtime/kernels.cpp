// Runtime functions of kernels: what the compiler's start-up code registers, and launches, which
// are enqueued and do nothing.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tests/support/fake_cuda/core/device_facts.h"
#include "tests/support/fake_cuda/core/stream_calls.h"
#include "tests/support/fake_cuda/runtime/abi.h"

namespace tidepool::fake_cuda::runtime {
namespace {

// Names of kernels by the address of their host function. PyTorch registers more than a hundred
// thousand when it is loaded, and most programs never ask: sorted when somebody does.
class KernelNames {
 public:
  void add(const void* function, const char* name) {
    std::lock_guard lock(mutex_);
    names_.push_back({function, name});
    is_sorted_ = false;
  }

  const char* of(const void* function) {
    std::lock_guard lock(mutex_);
    if (!is_sorted_) std::sort(names_.begin(), names_.end());
    is_sorted_ = true;
    const auto found = std::lower_bound(names_.begin(), names_.end(),
                                        std::pair<const void*, const char*>{function, nullptr});
    return found != names_.end() && found->first == function ? found->second : "kernel";
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<const void*, const char*>> names_;
  bool is_sorted_ = true;
};

KernelNames& kernel_names() {
  static auto* names = new KernelNames;  // used after statics are destroyed
  return *names;
}

// Device variables, by the address of their host shadow; zeroed host memory.
class Symbols {
 public:
  void add(const void* symbol, size_t bytes) {
    std::lock_guard lock(mutex_);
    sizes_[symbol] = bytes;
  }

  void* address(const void* symbol) {
    std::lock_guard lock(mutex_);
    const auto size = sizes_.find(symbol);
    if (size == sizes_.end()) return nullptr;
    void*& memory = memory_[symbol];
    if (!memory) memory = std::calloc(1, std::max<size_t>(size->second, 1));
    return memory;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, size_t> sizes_;
  std::map<const void*, void*> memory_;
};

Symbols& symbols() {
  static auto* there = new Symbols;
  return *there;
}

struct Configuration {
  Dimensions grid;
  Dimensions block;
  size_t shared_bytes;
  void* stream;
};

std::vector<Configuration>& pushed() {
  static thread_local std::vector<Configuration> configurations;
  return configurations;
}

int launch(const char* function, const void* kernel, Dimensions grid, Dimensions block,
           void* stream) {
  const auto count = [](Dimensions size) {
    return static_cast<unsigned long long>(size.x) * size.y * size.z;
  };
  return finish(
      calls::launch(function, stream, kernel_names().of(kernel), count(grid) * count(block)));
}

}  // namespace

FAKE_CUDA_API void** __cudaRegisterFatBinary(void*) {
  static void* handle[2];
  return handle;
}

FAKE_CUDA_API void __cudaRegisterFatBinaryEnd(void**) {}
FAKE_CUDA_API void __cudaUnregisterFatBinary(void**) {}
FAKE_CUDA_API char __cudaInitModule(void**) { return 1; }

FAKE_CUDA_API void __cudaRegisterVar(void**, char* shadow, char*, const char*, int, size_t bytes,
                                     int, int) {
  symbols().add(shadow, bytes);
}

FAKE_CUDA_API void __cudaRegisterFunction(void**, const char* function, char*, const char* name,
                                          int, Dimensions*, Dimensions*, Dimensions*, Dimensions*,
                                          int*) {
  kernel_names().add(function, name);
}

FAKE_CUDA_API unsigned __cudaPushCallConfiguration(Dimensions grid, Dimensions block,
                                                   size_t shared_bytes, void* stream) {
  pushed().push_back({grid, block, shared_bytes, stream});
  return 0;
}

FAKE_CUDA_API int __cudaPopCallConfiguration(Dimensions* grid, Dimensions* block,
                                             size_t* shared_bytes, void* stream) {
  if (pushed().empty()) return finish(Error::kMissingConfiguration);
  const Configuration configuration = pushed().back();
  pushed().pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  std::memcpy(stream, &configuration.stream, sizeof configuration.stream);
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int __cudaGetKernel(void** kernel, const void* function) {
  *kernel = const_cast<void*>(function);
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int __cudaLaunchKernel(void* kernel, Dimensions grid, Dimensions block, void**,
                                     size_t, void* stream) {
  return launch("cudaLaunchKernel", kernel, grid, block, stream);
}

FAKE_CUDA_API int cudaLaunchKernel(const void* kernel, Dimensions grid, Dimensions block, void**,
                                   size_t, void* stream) {
  return launch(__func__, kernel, grid, block, stream);
}

FAKE_CUDA_API int cudaLaunchKernelExC(const LaunchConfiguration* configuration, const void* kernel,
                                      void**) {
  return launch(__func__, kernel, configuration->grid, configuration->block, configuration->stream);
}

FAKE_CUDA_API int cudaLaunchCooperativeKernel(const void* kernel, Dimensions grid, Dimensions block,
                                              void**, size_t, void* stream) {
  return launch(__func__, kernel, grid, block, stream);
}

FAKE_CUDA_API int cudaFuncSetAttribute(const void*, int, int) { return finish(Error::kSuccess); }

FAKE_CUDA_API int cudaKernelSetAttributeForDevice(void*, int, int, int) {
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                         int threads, size_t,
                                                                         unsigned) {
  *blocks = threads > 0 ? std::max(1, kThreadsPerMultiprocessor / threads) : 1;
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*,
                                                                int threads, size_t) {
  *blocks = threads > 0 ? std::max(1, kThreadsPerMultiprocessor / threads) : 1;
  return finish(Error::kSuccess);
}

FAKE_CUDA_API int cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = symbols().address(symbol);
  return finish(*address ? Error::kSuccess : Error::kInvalidValue);
}

FAKE_CUDA_API int cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes,
                                     size_t offset, int) {
  char* const address = static_cast<char*>(symbols().address(symbol));
  if (!address) return finish(Error::kInvalidValue);
  std::memcpy(address + offset, from, bytes);
  return finish(Error::kSuccess);
}

}  // namespace tidepool::fake_cuda::runtime
