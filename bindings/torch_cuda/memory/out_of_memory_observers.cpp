#include "bindings/torch_cuda/memory/out_of_memory_observers.h"

#include <utility>

#include "bindings/torch_cuda/memory/native_pools.h"

namespace tidepool::torch_cuda {

void OutOfMemoryObservers::attach(CUDAAllocator& native, OutOfMemoryObserver observer) {
  // PyTorch's allocator tells of every attempt that it refuses; a request may take several.
  native.attachOutOfMemoryObserver(
      [observer](int64_t device, size_t allocated, size_t total, size_t free) {
        if (!NativePools::is_trying()) observer(device, allocated, total, free);
      });
  std::lock_guard<std::mutex> guard(mutex_);
  observers_.push_back(std::move(observer));
}

void OutOfMemoryObservers::tell(c10::DeviceIndex device, size_t allocated, size_t total,
                                size_t free) const {
  std::vector<OutOfMemoryObserver> told;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    told = observers_;
  }
  for (const OutOfMemoryObserver& observer : told) observer(device, allocated, total, free);
}

}  // namespace tidepool::torch_cuda
