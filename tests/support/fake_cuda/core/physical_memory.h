// PhysicalMemory: the memory of one device, a sparse anonymous file, mapped where it is used.
// So what is mapped twice, or moved, or opened by another process is the same memory, and bytes
// that nobody touches cost nothing. Extents never join: a freed one serves requests of its size.
// Owns the file. Not thread safe: the machine's lock is held.
// Invariants: (1) extents in use do not overlap; (2) used_bytes() is their sum and never exceeds
// the device's size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tidepool::fake_cuda {

constexpr size_t kGranularity = size_t{2} << 20;  // unless the environment says otherwise
size_t granularity();

inline size_t round_up(size_t bytes) {
  return (bytes + granularity() - 1) / granularity() * granularity();
}

// A part of a device's file, or of a file of another process.
struct Extent {
  int device = 0;
  int file = -1;
  uint64_t offset = 0;
  size_t bytes = 0;
};

class PhysicalMemory {
 public:
  // Throws: std::system_error where there is no file to be had.
  PhysicalMemory(int device, size_t total_bytes);
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  // Others use so much of it; what was taken before stays.
  void set_outside(size_t bytes) { outside_bytes_ = bytes; }
  size_t free_bytes() const {
    const size_t used = used_bytes_ + outside_bytes_;
    return total_bytes_ - std::min(total_bytes_, used);
  }
  // Requires: a multiple of granularity(). Throws: Refusal with kOutOfMemory.
  Extent take(size_t bytes);
  void give_back(const Extent& extent);

  size_t used_bytes() const { return used_bytes_; }
  size_t used_peak_bytes() const { return used_peak_bytes_; }
  size_t total_bytes() const { return total_bytes_; }

 private:
  const int device_;
  const size_t total_bytes_;
  int file_ = -1;
  uint64_t end_ = 0;
  std::map<size_t, std::vector<uint64_t>> free_;  // offsets by size
  size_t used_bytes_ = 0;
  size_t outside_bytes_ = 0;
  size_t used_peak_bytes_ = 0;
};

// Reserves addresses, aligned to `alignment`, that nothing may touch. Throws: Refusal.
uintptr_t reserve_addresses(size_t bytes, size_t alignment = granularity());
void release_addresses(uintptr_t start, size_t bytes);
// Maps memory at addresses that are reserved. Throws: Refusal with kOutOfMemory.
void map_extent(uintptr_t address, const Extent& extent, bool accessible);
// The addresses stay reserved.
void unmap_addresses(uintptr_t address, size_t bytes);
void set_accessible(uintptr_t address, size_t bytes, bool can_read, bool can_write);

}  // namespace tidepool::fake_cuda
