// DeviceStatistics: torch.cuda.memory_stats of one device, over our arena and the pools that
// PyTorch's own allocator keeps for graphs and MemPools. Peaks are of the sum at one instant.
// Not thread safe: the caller holds the device's lock, but for combined(), which says so.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>

namespace tidepool::torch_cuda {

using c10::CachingDeviceAllocator::DeviceStats;

class DeviceStatistics {
 public:
  // A block is handed out; its owner frees it.
  void allocated(size_t requested, size_t bytes);
  void freed(size_t requested, size_t bytes);
  // A freed block starts, or ends, to be in use by streams.
  void awaiting(size_t bytes, bool starts);
  // So many bytes are held from the device now, in pages of `page_bytes`.
  void reserved(size_t bytes, size_t page_bytes);

  // What PyTorch's own allocator holds now; call it after every request that it has served.
  void set_native(const DeviceStats& native);
  void add_retry() { ++ours_.num_alloc_retries; }
  void add_out_of_memory() { ++ours_.num_ooms; }

  // Both together. `native`: its statistics at this moment.
  DeviceStats combined(const DeviceStats& native) const;
  void reset_peaks();
  void reset_accumulated();

  size_t allocated_bytes() const { return size_t(ours_.allocated_bytes[0].current); }
  size_t reserved_bytes() const { return size_t(ours_.reserved_bytes[0].current); }

 private:
  // Names of the arrays that count both kinds, in the order of kBoth.
  static constexpr size_t kBothCount = 9;
  using Member = c10::CachingAllocator::StatArray DeviceStats::*;
  static const Member kBoth[kBothCount];

  void change(size_t which, size_t pool, int64_t amount);

  DeviceStats ours_;  // `peak` is of ours and native's together
  int64_t native_[kBothCount][3] = {};
};

}  // namespace tidepool::torch_cuda
