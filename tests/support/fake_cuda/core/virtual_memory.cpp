#include "tests/support/fake_cuda/core/virtual_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include "tests/support/fake_cuda/core/error.h"
#include "tests/support/fake_cuda/core/shared_file.h"

namespace tidepool::fake_cuda {
namespace {

template <typename... Arguments>
void require(bool holds, fmt::format_string<Arguments...> why, Arguments&&... arguments) {
  if (holds) return;
  throw Refusal(Error::kInvalidValue, fmt::format(why, std::forward<Arguments>(arguments)...));
}

bool is_whole(size_t bytes) { return bytes != 0 && bytes % granularity() == 0; }

}  // namespace

VirtualMemory::~VirtualMemory() {
  for (const auto& [start, bytes] : reservations_) release_addresses(start, bytes);
  for (const auto& [handle, physical] : handles_) {
    if (physical.is_imported) close(physical.extent.file);
  }
}

uintptr_t VirtualMemory::reserve(size_t bytes, size_t alignment, uint64_t flags) {
  require(is_whole(bytes), "size {} is not a multiple of the granularity", bytes);
  require((alignment & (alignment - 1)) == 0, "alignment {} is not a power of two", alignment);
  require(flags == 0, "flags {} are not zero", flags);
  const uintptr_t start = reserve_addresses(bytes, std::max(alignment, granularity()));
  reservations_[start] = bytes;
  return start;
}

void VirtualMemory::release_range(uintptr_t start, size_t bytes) {
  const auto found = reservations_.find(start);
  require(found != reservations_.end(), "{:#x} is not the start of a reservation", start);
  require(found->second == bytes, "the reservation at {:#x} has {} bytes, not {}", start,
          found->second, bytes);
  const auto mapped = mappings_.lower_bound(start);
  require(mapped == mappings_.end() || mapped->first >= start + bytes,
          "the reservation at {:#x} still has a mapping", start);
  release_addresses(start, bytes);
  reservations_.erase(found);
}

Handle VirtualMemory::create(size_t bytes, int device, uint64_t flags) {
  require(is_whole(bytes), "size {} is not a multiple of the granularity", bytes);
  require(flags == 0, "flags {} are not zero", flags);
  if (device < 0 || static_cast<size_t>(device) >= devices_.size()) {
    throw Refusal(Error::kInvalidDevice, fmt::format("there is no device {}", device));
  }
  const Extent extent = devices_[device]->take(bytes);
  const Handle handle = static_cast<Handle>(next_handle_++);
  handles_[handle] = Physical{.extent = extent};
  return handle;
}

VirtualMemory::Physical& VirtualMemory::physical(Handle handle) {
  const auto found = handles_.find(handle);
  require(found != handles_.end(), "handle {} is not alive", static_cast<uint64_t>(handle));
  return found->second;
}

void VirtualMemory::drop_if_unused(Handle handle) {
  const auto found = handles_.find(handle);
  const Physical& physical = found->second;
  if (physical.owners != 0 || physical.mappings != 0) return;
  if (physical.is_imported) {
    close(physical.extent.file);
  } else {
    devices_[physical.extent.device]->give_back(physical.extent);
  }
  handles_.erase(found);
}

void VirtualMemory::release(Handle handle) {
  Physical& released = physical(handle);
  require(released.owners != 0, "handle {} was released already", static_cast<uint64_t>(handle));
  --released.owners;
  drop_if_unused(handle);
}

Handle VirtualMemory::retain(uintptr_t address) {
  auto found = mappings_.upper_bound(address);
  require(found != mappings_.begin(), "nothing is mapped at {:#x}", address);
  --found;
  require(address < found->first + found->second.bytes, "nothing is mapped at {:#x}", address);
  ++physical(found->second.handle).owners;
  return found->second.handle;
}

void VirtualMemory::check_in_one_reservation(uintptr_t address, size_t bytes) const {
  auto found = reservations_.upper_bound(address);
  require(found != reservations_.begin(), "{:#x} is not reserved", address);
  --found;
  require(address < found->first + found->second && bytes <= found->first + found->second - address,
          "{} bytes at {:#x} are not in one reservation", bytes, address);
}

void VirtualMemory::map(uintptr_t address, size_t bytes, size_t offset, Handle handle,
                        uint64_t flags) {
  Physical& mapped = physical(handle);
  require(mapped.owners != 0, "handle {} was released", static_cast<uint64_t>(handle));
  require(flags == 0 && offset == 0, "flags {} or offset {} are not zero", flags, offset);
  require(address % granularity() == 0, "{:#x} is not a multiple of the granularity", address);
  require(bytes == mapped.extent.bytes, "the handle has {} bytes, not {}", mapped.extent.bytes,
          bytes);
  check_in_one_reservation(address, bytes);
  const auto above = mappings_.lower_bound(address);
  require(above == mappings_.end() || above->first >= address + bytes, "{:#x} is mapped already",
          above == mappings_.end() ? 0 : above->first);
  if (above != mappings_.begin()) {
    const auto below = std::prev(above);
    require(below->first + below->second.bytes <= address, "{:#x} is mapped already", address);
  }
  if (mappings_.size() >= settings_.mapping_limit) {
    throw Refusal(Error::kOutOfMemory,
                  fmt::format("{} mappings are the most", settings_.mapping_limit));
  }
  map_extent(address, mapped.extent, false);
  mappings_[address] = Mapping{bytes, handle, {}};
  ++mapped.mappings;
}

std::vector<VirtualMemory::Mappings::iterator> VirtualMemory::whole_mappings(uintptr_t address,
                                                                             size_t bytes) {
  require(is_whole(bytes), "size {} is not a multiple of the granularity", bytes);
  std::vector<Mappings::iterator> found;
  auto next = mappings_.find(address);
  for (uintptr_t at = address; at < address + bytes; ++next) {
    require(next != mappings_.end() && next->first == at,
            "no mapping starts at {:#x} in the {} bytes at {:#x}", at, bytes, address);
    require(next->second.bytes <= address + bytes - at,
            "the range ends inside the mapping at {:#x}", at);
    found.push_back(next);
    at += next->second.bytes;
  }
  return found;
}

void VirtualMemory::apply_access(const Mappings::value_type& mapping) {
  bool can_read = false;
  bool can_write = false;
  for (const auto& [device, access] : mapping.second.access) {
    can_read |= access != Access::kNone;
    can_write |= access == Access::kReadWrite;
  }
  set_accessible(mapping.first, mapping.second.bytes, can_read, can_write);
}

void VirtualMemory::set_access(uintptr_t address, size_t bytes, int device, Access access) {
  if (device < 0 || static_cast<size_t>(device) >= devices_.size()) {
    throw Refusal(Error::kInvalidDevice, fmt::format("there is no device {}", device));
  }
  const std::vector<Mappings::iterator> mappings = whole_mappings(address, bytes);
  for (const auto& mapping : mappings) {
    const int owner = device_of(mapping->second.handle);
    if (owner == device || settings_.peers) continue;
    throw Refusal(Error::kInvalidDevice,
                  fmt::format("device {} cannot reach the memory of device {}", device, owner));
  }
  for (const auto& mapping : mappings) {
    mapping->second.access[device] = access;
    apply_access(*mapping);
  }
}

Access VirtualMemory::access(uintptr_t address, int device) const {
  auto found = mappings_.upper_bound(address);
  require(found != mappings_.begin(), "nothing is mapped at {:#x}", address);
  --found;
  require(address < found->first + found->second.bytes, "nothing is mapped at {:#x}", address);
  const auto access = found->second.access.find(device);
  return access == found->second.access.end() ? Access::kNone : access->second;
}

void VirtualMemory::unmap(uintptr_t address, size_t bytes) {
  const std::vector<Mappings::iterator> unmapped = whole_mappings(address, bytes);
  unmap_addresses(address, bytes);
  for (const auto& mapping : unmapped) {
    const Handle handle = mapping->second.handle;
    mappings_.erase(mapping);
    --physical(handle).mappings;
    drop_if_unused(handle);
  }
}

int VirtualMemory::export_file(Handle handle) { return write_shared_file(physical(handle).extent); }

Handle VirtualMemory::import_file(int file) {
  const Extent extent = open_shared_file(file);
  const Handle handle = static_cast<Handle>(next_handle_++);
  handles_[handle] = Physical{.extent = extent, .is_imported = true};
  return handle;
}

bool VirtualMemory::is_reserved(uintptr_t address) const {
  auto found = reservations_.upper_bound(address);
  if (found == reservations_.begin()) return false;
  --found;
  return address < found->first + found->second;
}

std::optional<VirtualMemory::Place> VirtualMemory::find(uintptr_t address, int device) const {
  auto found = mappings_.upper_bound(address);
  if (found == mappings_.begin()) return std::nullopt;
  --found;
  const auto& [start, mapping] = *found;
  if (address >= start + mapping.bytes) return std::nullopt;
  Place place{
      .device = handles_.at(mapping.handle).extent.device, .start = start, .bytes = mapping.bytes};
  for (const auto& [owner, access] : mapping.access) {
    if (device != kAnyDevice && device != owner) continue;
    place.can_read |= access != Access::kNone;
    place.can_write |= access == Access::kReadWrite;
  }
  return place;
}

}  // namespace tidepool::fake_cuda
