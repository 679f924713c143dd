// DeviceStatistics: torch.cuda.memory_stats of one device, for our arena and the pools that
// PyTorch's own allocator keeps for graphs and MemPools together. A peak is the greatest sum of
// both at one instant.
// Not thread safe: the caller holds the device's lock.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>

namespace tidepool::torch_cuda {

using c10::CachingDeviceAllocator::DeviceStats;

class DeviceStatistics {
 public:
  // A block is handed out, or freed by its owner.
  void allocated(size_t requested, size_t bytes);
  void freed(size_t requested, size_t bytes);
  // A block that was freed while streams use it begins to wait for them, or its wait ends.
  void awaiting(size_t bytes, bool starts);
  // The arena holds so many bytes from the device now, in pages of `page_bytes`.
  void reserved(size_t bytes, size_t page_bytes);

  // Takes over the statistics of PyTorch's own allocator. Has to be called after each request that
  // this has served.
  void set_native(const DeviceStats& native);
  void add_retry() { ++ours_.num_alloc_retries; }
  void add_out_of_memory() { ++ours_.num_ooms; }

  // The statistics of both together. `native`: those of PyTorch's own allocator at this moment.
  DeviceStats combined(const DeviceStats& native) const;
  void reset_peaks();
  void reset_accumulated();

  size_t allocated_bytes() const { return size_t(ours_.allocated_bytes[0].current); }
  size_t reserved_bytes() const { return size_t(ours_.reserved_bytes[0].current); }

 private:
  // The arrays of DeviceStats that count for both allocators.
  static constexpr size_t kBothCount = 9;
  using Member = c10::CachingAllocator::StatArray DeviceStats::*;
  static const Member kBoth[kBothCount];

  void change(size_t which, size_t pool, int64_t amount);

  DeviceStats ours_;  // the arena's figures, but with peaks of both allocators together
  int64_t native_[kBothCount][3] = {};
};

}  // namespace tidepool::torch_cuda
