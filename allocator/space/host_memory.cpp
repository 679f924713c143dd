#include "allocator/space/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "allocator/base/sizes.h"

namespace tidepool::host {

Address reserve(size_t bytes, size_t alignment) {
  size_t padded = bytes + alignment;
  if (padded < bytes) throw DeviceError(fmt::format("reserve of {} bytes: too large", bytes));
  void* start =
      mmap(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    throw DeviceError(fmt::format(
        "{} bytes of addresses cannot be reserved: {}; a limit on address space (ulimit -v) has to "
        "leave room for several times the budget",
        bytes, std::strerror(errno)));
  }
  Address from = Address::of(start);
  Address aligned{round_up(from.value, alignment)};
  if (aligned > from) munmap(start, aligned - from);
  size_t rest = padded - (aligned - from) - bytes;
  if (rest > 0) munmap((aligned + bytes).pointer(), rest);
  return aligned;
}

void unreserve(Address start, size_t bytes) {
  if (munmap(start.pointer(), bytes) != 0) throw_errno("munmap", start, bytes);
}

size_t kernel_mapping_limit() {
  size_t limit = 65530;  // the kernel's default
  if (std::FILE* file = std::fopen("/proc/sys/vm/max_map_count", "re")) {
    if (std::fscanf(file, "%zu", &limit) != 1) limit = 65530;
    std::fclose(file);
  }
  return limit;
}

void throw_errno(const char* call, Address address, size_t bytes) {
  int error = errno;
  throw DeviceError(
      fmt::format("{} of {} bytes at {:#x}: {}", call, bytes, address.value, std::strerror(error)));
}

}  // namespace tidepool::host
