#include "tests/support/fake_cuda/core/allocations.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/support/fake_cuda/core/error.h"
#include "tests/support/fake_cuda/core/shared_file.h"

namespace tidepool::fake_cuda {

Allocations::~Allocations() {
  for (const auto& [start, allocation] : live_) {
    release_addresses(start, allocation.extent.bytes);
    if (allocation.is_opened) ::close(allocation.extent.file);
  }
  for (const auto& [start, host] : host_) {
    if (host.is_allocated) std::free(reinterpret_cast<void*>(start));
  }
}

uintptr_t Allocations::allocate(int device, size_t bytes) {
  if (bytes == 0) return 0;
  if (bytes > devices_.at(device)->total_bytes()) {
    throw Refusal(Error::kOutOfMemory, fmt::format("the device does not have {} bytes", bytes));
  }
  const Extent extent = devices_[device]->take(round_up(bytes));
  uintptr_t start = 0;
  try {
    start = reserve_addresses(extent.bytes);
    map_extent(start, extent, true);
  } catch (const Refusal&) {
    if (start != 0) release_addresses(start, extent.bytes);
    devices_[device]->give_back(extent);
    throw;
  }
  live_[start] = Allocation{extent};
  return start;
}

size_t Allocations::free(uintptr_t address) {
  if (address == 0) return 0;
  const auto found = live_.find(address);
  if (found == live_.end() || found->second.is_opened) {
    throw Refusal(Error::kInvalidValue, fmt::format("{:#x} was not allocated", address));
  }
  const Extent extent = found->second.extent;
  release_addresses(address, extent.bytes);
  devices_[extent.device]->give_back(extent);
  live_.erase(found);
  return extent.bytes;
}

std::optional<Allocations::Place> Allocations::find(uintptr_t address) const {
  auto found = live_.upper_bound(address);
  if (found == live_.begin()) return std::nullopt;
  --found;
  const Extent& extent = found->second.extent;
  if (address >= found->first + extent.bytes) return std::nullopt;
  return Place{extent.device, found->first, extent.bytes};
}

std::string Allocations::ticket(uintptr_t address) const {
  const std::optional<Place> place = find(address);
  if (!place) throw Refusal(Error::kInvalidValue, fmt::format("{:#x} was not allocated", address));
  return ticket_of(live_.at(place->start).extent);
}

uintptr_t Allocations::open(const std::string& ticket) {
  const Extent extent = open_ticket(ticket);
  const uintptr_t start = reserve_addresses(extent.bytes);
  map_extent(start, extent, true);
  live_[start] = Allocation{extent, true};
  return start;
}

void Allocations::close(uintptr_t address) {
  const auto found = live_.find(address);
  if (found == live_.end() || !found->second.is_opened) {
    throw Refusal(Error::kInvalidValue, fmt::format("{:#x} was not opened", address));
  }
  release_addresses(address, found->second.extent.bytes);
  ::close(found->second.extent.file);
  live_.erase(found);
}

void Allocations::check_host_room(size_t bytes, size_t limit) const {
  if (bytes <= limit && host_bytes_ <= limit - bytes) return;
  throw Refusal(Error::kOutOfMemory, fmt::format("{} of {} bytes are page-locked, and {} wanted",
                                                 host_bytes_, limit, bytes));
}

uintptr_t Allocations::allocate_host(size_t bytes, size_t limit) {
  bytes = std::max<size_t>(bytes, 1);
  check_host_room(bytes, limit);
  void* memory = nullptr;
  if (posix_memalign(&memory, 4096, bytes) != 0) {
    throw Refusal(Error::kOutOfMemory, "the host has no memory left");
  }
  const uintptr_t address = reinterpret_cast<uintptr_t>(memory);
  host_[address] = Host{bytes, true};
  host_bytes_ += bytes;
  return address;
}

void Allocations::free_host(uintptr_t address) {
  if (address == 0) return;
  const auto found = host_.find(address);
  if (found == host_.end() || !found->second.is_allocated) {
    throw Refusal(Error::kInvalidValue, fmt::format("{:#x} is no pinned allocation", address));
  }
  std::free(reinterpret_cast<void*>(address));
  host_bytes_ -= found->second.bytes;
  host_.erase(found);
}

void Allocations::register_host(uintptr_t address, size_t bytes, size_t limit) {
  if (bytes == 0) throw Refusal(Error::kInvalidValue, "no bytes to register");
  const auto above = host_.lower_bound(address);
  if (is_pinned(address) || (above != host_.end() && above->first < address + bytes)) {
    throw Refusal(Error::kHostMemoryAlreadyRegistered, fmt::format("{:#x}", address));
  }
  check_host_room(bytes, limit);
  host_[address] = Host{bytes, false};
  host_bytes_ += bytes;
}

void Allocations::unregister_host(uintptr_t address) {
  const auto found = host_.find(address);
  if (found == host_.end() || found->second.is_allocated) {
    throw Refusal(Error::kHostMemoryNotRegistered, fmt::format("{:#x}", address));
  }
  host_bytes_ -= found->second.bytes;
  host_.erase(found);
}

bool Allocations::is_pinned(uintptr_t address) const {
  auto found = host_.upper_bound(address);
  if (found == host_.begin()) return false;
  --found;
  return address < found->first + found->second.bytes;
}

}  // namespace tidepool::fake_cuda
