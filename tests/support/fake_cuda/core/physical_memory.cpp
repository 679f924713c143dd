#include "tests/support/fake_cuda/core/physical_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tests/support/fake_cuda/core/error.h"
#include "tests/support/fake_cuda/core/settings.h"

namespace tidepool::fake_cuda {

size_t granularity() {
  static const size_t bytes = settings_from_environment().granularity;
  return bytes;
}

PhysicalMemory::PhysicalMemory(int device, size_t total_bytes)
    : device_(device), total_bytes_(total_bytes) {
  file_ = memfd_create("fake_cuda", MFD_CLOEXEC);
  if (file_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
}

PhysicalMemory::~PhysicalMemory() { close(file_); }

Extent PhysicalMemory::take(size_t bytes) {
  if (bytes > free_bytes()) {
    throw Refusal(Error::kOutOfMemory,
                  fmt::format("{} bytes wanted, {} of {} used, and {} by others", bytes,
                              used_bytes_, total_bytes_, outside_bytes_));
  }
  Extent extent{.device = device_, .file = file_, .offset = end_, .bytes = bytes};
  std::vector<uint64_t>& free = free_[bytes];
  if (!free.empty()) {
    extent.offset = free.back();
    free.pop_back();
  } else {
    if (ftruncate(file_, static_cast<off_t>(end_ + bytes)) != 0) {
      throw Refusal(Error::kOutOfMemory, "the host has no room for the device's memory");
    }
    end_ += bytes;
  }
  used_bytes_ += bytes;
  used_peak_bytes_ = std::max(used_peak_bytes_, used_bytes_);
  return extent;
}

void PhysicalMemory::give_back(const Extent& extent) {
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(extent.offset),
            static_cast<off_t>(extent.bytes));
  free_[extent.bytes].push_back(extent.offset);
  used_bytes_ -= extent.bytes;
}

uintptr_t reserve_addresses(size_t bytes, size_t alignment) {
  void* const mapped = mmap(nullptr, bytes + alignment, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw Refusal(Error::kOutOfMemory, "no addresses left");
  const uintptr_t first = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t start = (first + alignment - 1) / alignment * alignment;
  const uintptr_t end = first + bytes + alignment;
  if (start > first) release_addresses(first, start - first);
  if (end > start + bytes) release_addresses(start + bytes, end - start - bytes);
  return start;
}

void release_addresses(uintptr_t start, size_t bytes) {
  munmap(reinterpret_cast<void*>(start), bytes);
}

void map_extent(uintptr_t address, const Extent& extent, bool accessible) {
  const int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* const mapped = mmap(reinterpret_cast<void*>(address), extent.bytes, protection,
                            MAP_SHARED | MAP_FIXED, extent.file, static_cast<off_t>(extent.offset));
  if (mapped == MAP_FAILED) throw Refusal(Error::kOutOfMemory, "the host refused a mapping");
}

void unmap_addresses(uintptr_t address, size_t bytes) {
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void set_accessible(uintptr_t address, size_t bytes, bool can_read, bool can_write) {
  const int protection = (can_read ? PROT_READ : 0) | (can_write ? PROT_WRITE : 0);
  if (mprotect(reinterpret_cast<void*>(address), bytes, protection) != 0) {
    throw Refusal(Error::kOutOfMemory, "the host refused to change access");
  }
}

}  // namespace tidepool::fake_cuda
