#include "allocator/space/mapping_ledger.h"

#include <fmt/format.h>

#include "allocator/base/check.h"
#include "allocator/base/sizes.h"

namespace tidepool {

namespace {

[[noreturn]] void fail(const char* what, Address address, size_t bytes, const char* why) {
  throw DeviceError(fmt::format("{} of {} bytes at {:#x}: {}", what, bytes, address.value, why));
}

}  // namespace

void MappingLedger::check_size(const char* what, size_t bytes) const {
  if (bytes == 0 || bytes % granularity_ != 0) {
    throw DeviceError(fmt::format("{}: {} bytes are not a positive multiple of the granularity {}",
                                  what, bytes, granularity_));
  }
}

void MappingLedger::add_range(Address start, size_t bytes) { ranges_.emplace(start, bytes); }

void MappingLedger::check_release_range(Address start, size_t bytes) const {
  auto range = ranges_.find(start);
  if (range == ranges_.end() || range->second != bytes) {
    fail("release_range", start, bytes, "no such range");
  }
  auto mapping = mappings_.lower_bound(start);
  if (mapping != mappings_.end() && mapping->first < start + bytes) {
    fail("release_range", start, bytes, "something is still mapped in it");
  }
}

void MappingLedger::release_range(Address start) { ranges_.erase(start); }

HandleId MappingLedger::create_handle(size_t bytes) {
  uint64_t id = next_handle_++;
  handles_.emplace(id, Handle{bytes, {}});
  handle_bytes_total_ += bytes;
  return HandleId{id};
}

const MappingLedger::Handle& MappingLedger::handle_or_throw(HandleId handle) const {
  auto found = handles_.find(static_cast<uint64_t>(handle));
  if (found == handles_.end()) {
    throw DeviceError(fmt::format("no handle {}", static_cast<uint64_t>(handle)));
  }
  return found->second;
}

void MappingLedger::check_release_handle(HandleId handle) const {
  if (handle_or_throw(handle).mapped_at != Address{}) {
    throw DeviceError(fmt::format("release_handle: {} is mapped", static_cast<uint64_t>(handle)));
  }
}

void MappingLedger::release_handle(HandleId handle) {
  handle_bytes_total_ -= handle_or_throw(handle).bytes;
  handles_.erase(static_cast<uint64_t>(handle));
}

void MappingLedger::check_vacant(Address address, size_t bytes) const {
  if (address.value % granularity_ != 0) fail("map", address, bytes, "address not aligned");
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) fail("map", address, bytes, "outside every range");
  --range;
  size_t inside = address - range->first;
  if (inside >= range->second || bytes > range->second - inside) {
    fail("map", address, bytes, "outside every range");
  }
  auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) {
    fail("map", address, bytes, "something is mapped there");
  }
  if (next != mappings_.begin()) {
    --next;
    if (address < next->first + next->second.bytes) {
      fail("map", address, bytes, "something is mapped there");
    }
  }
}

void MappingLedger::check_map(Address address, size_t bytes, HandleId handle) const {
  const Handle& entry = handle_or_throw(handle);
  if (entry.bytes != bytes) fail("map", address, bytes, "not the size of the handle");
  if (entry.mapped_at != Address{}) fail("map", address, bytes, "the handle is mapped already");
  check_vacant(address, bytes);
  if (mappings_.size() >= mapping_limit_) fail("map", address, bytes, "too many mappings");
}

void MappingLedger::map(Address address, HandleId handle) {
  Handle& entry = handles_.at(static_cast<uint64_t>(handle));
  entry.mapped_at = address;
  mappings_.emplace(address, Mapping{entry.bytes, handle, false});
}

void MappingLedger::check_tiled(const char* what, Address address, size_t bytes) const {
  Address at = address;
  for (auto mapping = mappings_.find(address); at < address + bytes; ++mapping) {
    if (mapping == mappings_.end() || mapping->first != at) {
      fail(what, address, bytes, "not mapped without a gap, or not from a mapping's start");
    }
    at = at + mapping->second.bytes;
  }
  if (at != address + bytes) fail(what, address, bytes, "ends inside a mapping");
}

void MappingLedger::check_set_access(Address address, size_t bytes) const {
  check_size("set_access", bytes);
  check_tiled("set_access", address, bytes);
}

void MappingLedger::set_access(Address address, size_t bytes) {
  for (auto mapping = mappings_.find(address);
       mapping != mappings_.end() && mapping->first < address + bytes; ++mapping) {
    mapping->second.accessible = true;
  }
}

void MappingLedger::check_unmap(Address address, size_t bytes) const {
  check_size("unmap", bytes);
  check_tiled("unmap", address, bytes);
}

void MappingLedger::unmap(Address address, size_t bytes) {
  auto mapping = mappings_.find(address);
  while (mapping != mappings_.end() && mapping->first < address + bytes) {
    handles_.at(static_cast<uint64_t>(mapping->second.handle)).mapped_at = Address{};
    mapping = mappings_.erase(mapping);
  }
}

void MappingLedger::check_move(HandleId handle, Address from, Address to, size_t bytes) const {
  const Handle& entry = handle_or_throw(handle);
  if (entry.bytes != bytes || entry.mapped_at != from || from == Address{}) {
    fail("move", from, bytes, "the handle is not mapped there");
  }
  check_vacant(to, bytes);
}

void MappingLedger::move(HandleId handle, Address from, Address to) {
  mappings_.erase(from);
  map(to, handle);
}

bool MappingLedger::accessible(Address address, size_t bytes) const {
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return false;
  --mapping;
  Address at = mapping->first;
  for (; mapping != mappings_.end() && mapping->first == at; ++mapping) {
    if (!mapping->second.accessible) return false;
    at = at + mapping->second.bytes;
    if (at >= address + bytes) return true;
  }
  return false;
}

std::vector<std::pair<Address, size_t>> MappingLedger::accessible_runs() const {
  std::vector<std::pair<Address, size_t>> runs;
  for (const auto& [start, mapping] : mappings_) {
    if (!mapping.accessible) continue;
    if (!runs.empty() && runs.back().first + runs.back().second == start) {
      runs.back().second += mapping.bytes;
    } else {
      runs.emplace_back(start, mapping.bytes);
    }
  }
  return runs;
}

std::pair<Address, MappingLedger::Mapping> MappingLedger::mapping_at(Address address) const {
  auto after = mappings_.upper_bound(address);
  if (after != mappings_.begin()) {
    auto [start, mapping] = *std::prev(after);
    if (address < start + mapping.bytes) return {start, mapping};
  }
  fail("look-up", address, 0, "nothing is mapped there");
}

void MappingLedger::check_invariants() const {
  Address end;
  for (const auto& [start, bytes] : ranges_) {
    TIDEPOOL_CHECK(start >= end, "(1) range at %zx overlaps its neighbour", start.value);
    end = start + bytes;
  }
  end = Address{};
  for (const auto& [start, mapping] : mappings_) {
    TIDEPOOL_CHECK(start >= end, "(2) mapping at %zx overlaps its neighbour", start.value);
    end = start + mapping.bytes;
    auto range = ranges_.upper_bound(start);
    TIDEPOOL_CHECK(range != ranges_.begin(), "(2) mapping at %zx outside ranges", start.value);
    --range;
    TIDEPOOL_CHECK(end <= range->first + range->second, "(2) mapping at %zx leaves its range",
                   start.value);
    const Handle& handle = handles_.at(static_cast<uint64_t>(mapping.handle));
    TIDEPOOL_CHECK(handle.mapped_at == start && handle.bytes == mapping.bytes,
                   "(2) mapping at %zx and its handle disagree", start.value);
  }
}

}  // namespace tidepool
