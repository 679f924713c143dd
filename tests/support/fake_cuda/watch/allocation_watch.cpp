// Declares what PyTorch's CUDA allocator hands out and takes back to the race checker, whichever
// allocator is installed: it listens to the allocator's trace. record_stream and operands are not
// in the trace: tests/support/operand_watch.py declares them.
#include <c10/cuda/CUDACachingAllocator.h>

#include <mutex>
#include <unordered_set>

#include "tests/support/fake_cuda/control.h"

namespace {

using Entry = c10::cuda::CUDACachingAllocator::TraceEntry;

// Blocks handed out before the watch began are nobody's.
class Blocks {
 public:
  void add(size_t address) {
    std::lock_guard lock(mutex_);
    addresses_.insert(address);
  }
  bool remove(size_t address) {
    std::lock_guard lock(mutex_);
    return addresses_.erase(address) != 0;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<size_t> addresses_;
};

Blocks& blocks() {
  static auto* there = new Blocks;  // blocks are freed after statics are destroyed
  return *there;
}

void declare(const Entry& entry) {
  const void* const address = reinterpret_cast<const void*>(entry.addr_);
  if (entry.action_ == Entry::ALLOC) {
    blocks().add(entry.addr_);
    fake_cuda_range_allocated(address, entry.size_, entry.stream_);
  } else if (entry.action_ == Entry::FREE_REQUESTED && blocks().remove(entry.addr_)) {
    fake_cuda_range_freed(address);
  }
}

}  // namespace

// Begins to watch. Requires: CUDA is initialised.
FAKE_CUDA_API void fake_cuda_watch_allocator() {
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(declare);
}
