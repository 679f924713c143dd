// OutOfMemoryObservers: the functions that a job has asked to be told of requests that end in out
// of memory, whichever allocator was asked: each is told once of a request, however often it was
// tried. Owns the functions. Thread safe.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <mutex>
#include <vector>

namespace tidepool::torch_cuda {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;

class OutOfMemoryObservers {
 public:
  // From now on tell() and PyTorch's allocator, `native`, tell it.
  void attach(CUDAAllocator& native, OutOfMemoryObserver observer);
  // Of a request of the arena.
  void tell(c10::DeviceIndex device, size_t allocated, size_t total, size_t free) const;

 private:
  mutable std::mutex mutex_;
  std::vector<OutOfMemoryObserver> observers_;
};

}  // namespace tidepool::torch_cuda
