// What the programs of this folder that measure CUDA allocators share: PyTorch's own allocator and
// Tidepool's, both alive in one process, on the stand-in CUDA device.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <string>

namespace tidepool::bench {

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
