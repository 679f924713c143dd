// What the programs of this folder that measure CUDA allocators share: PyTorch's own allocator and
// Tidepool's, both alive in one process, on the stand-in CUDA device; and clocks, in ns: processor
// time of the calling thread, to which what other processes do does not count, and that on the
// wall.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <ctime>
#include <string>

namespace tidepool::bench {

inline double read_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}
inline double thread_ns() { return read_ns(CLOCK_THREAD_CPUTIME_ID); }
inline double wall_ns() { return read_ns(CLOCK_MONOTONIC); }

using c10::cuda::CUDACachingAllocator::CUDAAllocator;

struct CudaSession {
  CUDAAllocator* native = nullptr;  // PyTorch's own
  CUDAAllocator* ours = nullptr;    // in its place
};

// Prints why and exits with status 1.
[[noreturn]] void die(const std::string& why);

// Sets CUDA up as libtorch_cuda would, and attaches the plugin. Requires: called once.
CudaSession start_cuda(const char* plugin);

}  // namespace tidepool::bench
