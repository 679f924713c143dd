#include "bench/torch/cuda_session.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/PeerToPeerAccess.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace c10::cuda::_internal {
// Exported for libtorch_cuda, in no header.
void setHasPrimaryContext(bool (*function)(DeviceIndex));
}  // namespace c10::cuda::_internal

namespace tidepool::bench {

void die(const std::string& why) {
  std::fprintf(stderr, "cuda benchmark: %s\n", why.c_str());
  std::exit(1);
}

CudaSession start_cuda(const char* plugin) {
  CudaSession session;
  session.native = c10::cuda::CUDACachingAllocator::get();
  const auto devices = c10::cuda::device_count_ensure_non_zero();
  // What libtorch_cuda, which is not needed otherwise, would do.
  c10::cuda::detail::init_p2p_access_cache(devices);
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
  session.native->init(devices);
  c10::cuda::set_device(0);

  void* library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) die(dlerror());
  using Attach = int (*)(const char* settings, char* error, size_t error_bytes);
  const auto attach = reinterpret_cast<Attach>(dlsym(library, "tidepool_attach"));
  // The allocator alone: what eviction adds is for other benchmarks.
  constexpr const char* kSettings = R"({"budget_share": 1.0, "rematerialize": false})";
  char error[4096] = "";
  if (attach == nullptr || attach(kSettings, error, sizeof error) != 0) {
    die(std::string(plugin) + ": " + error);
  }
  session.ours = c10::cuda::CUDACachingAllocator::get();
  if (session.ours == session.native) die("Tidepool did not take PyTorch's allocator's place");
  return session;
}

}  // namespace tidepool::bench
