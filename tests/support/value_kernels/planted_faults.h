// PlantedFaults: faults of a runtime, made on purpose in the value kernels, to see that a test
// notices: an operator that sees what an argument held before it was last written in place (a stale
// read), and a write in place that does not happen (a lost version).
// Thread safe. Remembers old contents, by hash, from the moment a stale read is planted.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace tidepool::value_kernels {

class PlantedFaults {
 public:
  // The n-th read, from now and from 1, of a tensor with older contents gets the hash of these.
  // Reads of true copies do not count.
  void plant_stale_read(uint64_t n) { stale_reads_left_ = n; }
  // The n-th write, from now and from 1, that depends on the old contents is dropped.
  void plant_lost_write(uint64_t n) { lost_writes_left_ = n; }
  // How many of them have happened.
  uint64_t happened() const { return happened_; }

  // To be called with the hash of an argument's contents before the kernel runs. Returns the hash
  // that the kernel is to see.
  uint64_t read(const at::Tensor& tensor, uint64_t hash);
  // To be called before the contents of a tensor, with this hash, are replaced by newer ones.
  // Returns whether they are to stay.
  bool loses_write(const at::Tensor& tensor, uint64_t old_hash);

 private:
  std::atomic<uint64_t> stale_reads_left_{0};  // 0: none is planted
  std::atomic<uint64_t> lost_writes_left_{0};
  std::atomic<uint64_t> happened_{0};
  std::mutex mutex_;
  std::unordered_map<const void*, uint64_t> older_;  // by address
};

PlantedFaults& planted_faults();

}  // namespace tidepool::value_kernels
