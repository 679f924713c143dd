#include "tests/support/value_kernels/planted_faults.h"

namespace tidepool::value_kernels {
namespace {

// Counts down; true for the one that takes it to zero.
bool is_last(std::atomic<uint64_t>& left) {
  uint64_t seen = left.load(std::memory_order_relaxed);
  while (seen != 0 && !left.compare_exchange_weak(seen, seen - 1)) {
  }
  return seen == 1;
}

}  // namespace

uint64_t PlantedFaults::read(const at::Tensor& tensor, uint64_t hash) {
  if (stale_reads_left_.load(std::memory_order_relaxed) == 0) [[likely]]
    return hash;
  std::lock_guard lock(mutex_);
  const auto older = older_.find(tensor.const_data_ptr());
  if (older == older_.end() || older->second == hash || !is_last(stale_reads_left_)) return hash;
  ++happened_;
  return older->second;
}

bool PlantedFaults::loses_write(const at::Tensor& tensor, uint64_t old_hash) {
  if (stale_reads_left_.load(std::memory_order_relaxed) != 0) {
    std::lock_guard lock(mutex_);
    older_[tensor.const_data_ptr()] = old_hash;
  }
  if (lost_writes_left_.load(std::memory_order_relaxed) == 0 || !is_last(lost_writes_left_)) {
    return false;
  }
  ++happened_;
  return true;
}

PlantedFaults& planted_faults() {
  static auto* faults = new PlantedFaults;
  return *faults;
}

}  // namespace tidepool::value_kernels
