// System calls on host memory that more than one part needs. Their errors become DeviceError.
#pragma once

#include <cstddef>

#include "allocator/space/address_space.h"

namespace tidepool::host {

// Reserves inaccessible addresses, aligned to `alignment`. Throws: DeviceError.
Address reserve(size_t bytes, size_t alignment);
void unreserve(Address start, size_t bytes);

// How many mappings the kernel allows a process (vm.max_map_count).
size_t kernel_mapping_limit();

// Throws DeviceError "`call` of ... bytes at ...: strerror(errno)".
[[noreturn]] void throw_errno(const char* call, Address address, size_t bytes);

}  // namespace tidepool::host
