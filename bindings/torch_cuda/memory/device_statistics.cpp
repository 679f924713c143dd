#include "bindings/torch_cuda/memory/device_statistics.h"

#include <algorithm>
#include <cstdlib>

namespace tidepool::torch_cuda {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

// The size up to which blocks are small in PyTorch's statistics.
constexpr size_t kSmallBytes = 1 << 20;
enum Pool : size_t { kAll, kSmall, kLarge, kPools };
Pool pool_of(size_t bytes) { return bytes <= kSmallBytes ? kSmall : kLarge; }

enum Which : size_t {
  kAllocations,
  kActive,
  kAllocatedBytes,
  kActiveBytes,
  kRequestedBytes,
  kSegments,
  kReservedBytes,
  kInactiveSplits,
  kInactiveSplitBytes
};

}  // namespace

const DeviceStatistics::Member DeviceStatistics::kBoth[kBothCount] = {
    &DeviceStats::allocation,          &DeviceStats::active,
    &DeviceStats::allocated_bytes,     &DeviceStats::active_bytes,
    &DeviceStats::requested_bytes,     &DeviceStats::segment,
    &DeviceStats::reserved_bytes,      &DeviceStats::inactive_split,
    &DeviceStats::inactive_split_bytes};

void DeviceStatistics::change(size_t which, size_t pool, int64_t amount) {
  for (size_t kind : {size_t{kAll}, pool}) {
    Stat& stat = (ours_.*kBoth[which])[kind];
    stat.current += amount;
    if (amount > 0) {
      stat.allocated += amount;
      stat.peak = std::max(stat.peak, stat.current + native_[which][kind]);
    } else {
      stat.freed -= amount;
    }
  }
}

void DeviceStatistics::allocated(size_t requested, size_t bytes) {
  const Pool pool = pool_of(bytes);
  change(kAllocations, pool, 1);
  change(kActive, pool, 1);
  change(kAllocatedBytes, pool, static_cast<int64_t>(bytes));
  change(kActiveBytes, pool, static_cast<int64_t>(bytes));
  change(kRequestedBytes, pool, static_cast<int64_t>(requested));
}

void DeviceStatistics::freed(size_t requested, size_t bytes) {
  const Pool pool = pool_of(bytes);
  change(kAllocations, pool, -1);
  change(kActive, pool, -1);
  change(kAllocatedBytes, pool, -static_cast<int64_t>(bytes));
  change(kActiveBytes, pool, -static_cast<int64_t>(bytes));
  change(kRequestedBytes, pool, -static_cast<int64_t>(requested));
}

void DeviceStatistics::awaiting(size_t bytes, bool starts) {
  const Pool pool = pool_of(bytes);
  const int64_t sign = starts ? 1 : -1;
  change(kActive, pool, sign);
  change(kActiveBytes, pool, sign * static_cast<int64_t>(bytes));
}

void DeviceStatistics::reserved(size_t bytes, size_t page_bytes) {
  const auto change_bytes = static_cast<int64_t>(bytes) - ours_.reserved_bytes[kAll].current;
  if (change_bytes == 0) return;
  const int64_t pages = change_bytes / static_cast<int64_t>(page_bytes);
  // Small and large blocks share the arena's pages, which count as pages of large blocks.
  change(kSegments, kLarge, pages);
  change(kReservedBytes, kLarge, change_bytes);
  (pages > 0 ? ours_.num_device_alloc : ours_.num_device_free) += std::abs(pages);
}

void DeviceStatistics::set_native(const DeviceStats& native) {
  for (size_t which = 0; which < kBothCount; ++which) {
    for (size_t pool = 0; pool < kPools; ++pool) {
      const int64_t current = (native.*kBoth[which])[pool].current;
      native_[which][pool] = current;
      Stat& stat = (ours_.*kBoth[which])[pool];
      stat.peak = std::max(stat.peak, stat.current + current);
    }
  }
}

DeviceStats DeviceStatistics::combined(const DeviceStats& native) const {
  DeviceStats sum = native;  // has figures that only PyTorch's own allocator counts
  for (size_t which = 0; which < kBothCount; ++which) {
    for (size_t pool = 0; pool < kPools; ++pool) {
      const Stat& ours = (ours_.*kBoth[which])[pool];
      Stat& both = (sum.*kBoth[which])[pool];
      both.current += ours.current;
      both.allocated += ours.allocated;
      both.freed += ours.freed;
      both.peak = std::max(ours.peak, both.current);
    }
  }
  for (auto member : {&DeviceStats::num_alloc_retries, &DeviceStats::num_ooms,
                      &DeviceStats::num_device_alloc, &DeviceStats::num_device_free}) {
    sum.*member += ours_.*member;
  }
  // The bytes that lie free between blocks are the arena's bytes that are not in use.
  for (size_t pool : {size_t{kAll}, size_t{kLarge}}) {
    Stat& unused = sum.inactive_split_bytes[pool];
    unused.current += ours_.reserved_bytes[0].current - ours_.active_bytes[0].current;
    unused.peak = std::max(unused.peak, unused.current);
  }
  return sum;
}

void DeviceStatistics::reset_peaks() {
  for (size_t which = 0; which < kBothCount; ++which) {
    for (size_t pool = 0; pool < kPools; ++pool) {
      Stat& stat = (ours_.*kBoth[which])[pool];
      stat.peak = stat.current + native_[which][pool];
    }
  }
}

void DeviceStatistics::reset_accumulated() {
  for (Member member : kBoth) {
    for (Stat& stat : ours_.*member) stat.allocated = stat.freed = 0;
  }
  ours_.num_alloc_retries = ours_.num_ooms = 0;
  ours_.num_device_alloc = ours_.num_device_free = 0;
}

}  // namespace tidepool::torch_cuda
