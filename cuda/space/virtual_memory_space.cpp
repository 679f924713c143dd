#include "cuda/space/virtual_memory_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/base/device_broken.h"
#include "allocator/base/sizes.h"
#include "cuda/space/fill.h"

namespace tidepool::device {

namespace {

// A GPU has been reported to refuse mappings from about 520,000 on; half of that is 512 GiB in
// handles of 2 MiB.
constexpr size_t kMappings = size_t{1} << 18;

size_t least_granularity(const Driver& driver, const driver::AllocationProperties& properties) {
  size_t least = 0;
  driver.check(
      driver.call().MemGetAllocationGranularity(&least, &properties, driver::kGranularityMinimum),
      "cuMemGetAllocationGranularity");
  return least;
}

// Whether the driver makes a handle of this kind. One that has no memory left may make it later.
bool accepts(const Driver& driver, const driver::AllocationProperties& properties) try {
  driver::AllocationHandle handle = 0;
  const driver::Result result =
      driver.call().MemCreate(&handle, least_granularity(driver, properties), &properties, 0);
  if (result == driver::kSuccess) (void)driver.call().MemRelease(handle);
  return result == driver::kSuccess || result == driver::kOutOfMemory;
} catch (const DeviceError&) {
  return false;
}

// What PyTorch asks for, too. Some drivers refuse what their attributes promise (under WSL2, for
// one): each is tried.
driver::AllocationProperties properties_for(const Driver& driver) {
  driver::AllocationProperties plain;
  plain.location.id = driver.ordinal();
  if (!driver.has_virtual_memory()) return plain;
  const bool can_export = driver.attribute(driver::kFileDescriptorsSupported) != 0;
  const bool can_rdma = driver.attribute(driver::kGpuDirectRdmaSupported) != 0;
  // Both, or the one or the other.
  for (const auto& [exports, rdma] : {std::pair(true, true), {true, false}, {false, true}}) {
    if ((exports && !can_export) || (rdma && !can_rdma)) continue;
    driver::AllocationProperties properties = plain;
    if (exports) properties.requested_handle_types = driver::kHandleFileDescriptor;
    properties.flags.gpu_direct_rdma_capable = rdma ? 1 : 0;
    if (accepts(driver, properties)) return properties;
  }
  return plain;
}

size_t granularity_for(const Driver& driver, const driver::AllocationProperties& properties,
                       const VirtualMemoryOptions& options) {
  if (!driver.has_virtual_memory()) {
    throw DeviceError(fmt::format("device {} has no virtual memory", driver.ordinal()));
  }
  const size_t least = least_granularity(driver, properties);
  if (!is_power_of_two(least)) {
    throw DeviceError(fmt::format("device {} maps multiples of {} bytes, not a power of two",
                                  driver.ordinal(), least));
  }
  if (options.granularity == 0) return least;
  if (!is_power_of_two(options.granularity) || options.granularity < least) {
    throw DeviceError(fmt::format("granularity: {} has to be a power of two of at least {} bytes",
                                  options.granularity, least));
  }
  return options.granularity;
}

driver::DevicePointer pointer(Address address) { return address.value; }

}  // namespace

VirtualMemorySpace::VirtualMemorySpace(Driver& driver, const VirtualMemoryOptions& options)
    : VirtualMemorySpace(driver, options, properties_for(driver)) {}

VirtualMemorySpace::VirtualMemorySpace(Driver& driver, const VirtualMemoryOptions& options,
                                       const driver::AllocationProperties& properties)
    : LedgerSpace(granularity_for(driver, properties, options), kMappings),
      driver_(driver),
      properties_(properties),
      ordinals_{driver.ordinal()} {}

void VirtualMemorySpace::fail(driver::Result result, const char* call, Address address,
                              size_t bytes) const {
  const DeviceError error =
      driver_.error(result, fmt::format("{} of {} at {}", call, human_and_exact_bytes(bytes),
                                        fmt::ptr(address.pointer())));
  if (driver::is_broken(result)) throw DeviceBroken(error.what());
  throw error;
}

Address VirtualMemorySpace::reserve(size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_size("reserve", bytes);
  driver::DevicePointer start = 0;
  driver::Result result =
      driver_.call().MemAddressReserve(&start, bytes, ledger_.granularity(), 0, 0);
  if (result != driver::kSuccess) fail(result, "cuMemAddressReserve", {}, bytes);
  Address address{static_cast<uintptr_t>(start)};
  ledger_.add_range(address, bytes);
  return address;
}

void VirtualMemorySpace::release_range(Address start, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_release_range(start, bytes);
  driver::Result result = driver_.call().MemAddressFree(pointer(start), bytes);
  if (result != driver::kSuccess) fail(result, "cuMemAddressFree", start, bytes);
  ledger_.release_range(start);
}

HandleId VirtualMemorySpace::create_handle(size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_size("create_handle", bytes);
  driver::AllocationHandle created = 0;
  driver::Result result = driver_.call().MemCreate(&created, bytes, &properties_, 0);
  if (result != driver::kSuccess) fail(result, "cuMemCreate", {}, bytes);
  HandleId handle = ledger_.create_handle(bytes);
  handles_.emplace(static_cast<uint64_t>(handle), created);
  return handle;
}

void VirtualMemorySpace::release_handle(HandleId handle) {
  const MutexLock lock(mutex_);
  ledger_.check_release_handle(handle);
  auto found = handles_.find(static_cast<uint64_t>(handle));
  driver::Result result = driver_.call().MemRelease(found->second);
  if (result != driver::kSuccess) fail(result, "cuMemRelease", {}, 0);
  handles_.erase(found);
  ledger_.release_handle(handle);
}

void VirtualMemorySpace::map(Address address, size_t bytes, HandleId handle) {
  const MutexLock lock(mutex_);
  ledger_.check_map(address, bytes, handle);
  driver::Result result = driver_.call().MemMap(pointer(address), bytes, 0,
                                                handles_.at(static_cast<uint64_t>(handle)), 0);
  if (result != driver::kSuccess) fail(result, "cuMemMap", address, bytes);
  ledger_.map(address, handle);
}

driver::Result VirtualMemorySpace::grant(Address address, size_t bytes,
                                         std::span<const int> ordinals) {
  std::vector<driver::AccessDescription> access(ordinals.size());
  for (size_t i = 0; i < ordinals.size(); ++i) access[i].location.id = ordinals[i];
  return driver_.call().MemSetAccess(pointer(address), bytes, access.data(), access.size());
}

void VirtualMemorySpace::set_access(Address address, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_set_access(address, bytes);
  driver::Result result = grant(address, bytes, ordinals_);
  if (result != driver::kSuccess) fail(result, "cuMemSetAccess", address, bytes);
  ledger_.set_access(address, bytes);
}

void VirtualMemorySpace::unmap(Address address, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_unmap(address, bytes);
  driver::Result result = driver_.call().MemUnmap(pointer(address), bytes);
  if (result != driver::kSuccess) fail(result, "cuMemUnmap", address, bytes);
  ledger_.unmap(address, bytes);
}

MoveResult VirtualMemorySpace::move(HandleId handle, Address from, Address to, size_t bytes) try {
  const MutexLock lock(mutex_);
  ledger_.check_move(handle, from, to, bytes);
  if (driver_.call().MemUnmap(pointer(from), bytes) != driver::kSuccess) {
    return MoveResult::kStayed;
  }
  ledger_.unmap(from, bytes);
  driver::Result result =
      driver_.call().MemMap(pointer(to), bytes, 0, handles_.at(static_cast<uint64_t>(handle)), 0);
  if (result != driver::kSuccess) return MoveResult::kUnmapped;
  ledger_.map(to, handle);
  return MoveResult::kMoved;
} catch (const DeviceError&) {
  return MoveResult::kStayed;  // a rule would have been broken
}

void VirtualMemorySpace::fill(Address address, size_t bytes, unsigned char value) {
  fill_device(driver_, address, bytes, value);
}

void VirtualMemorySpace::add_peer(int ordinal) {
  const MutexLock lock(mutex_);
  if (std::find(ordinals_.begin(), ordinals_.end(), ordinal) != ordinals_.end()) return;
  for (auto [start, bytes] : ledger_.accessible_runs()) {
    driver::Result result = grant(start, bytes, {&ordinal, 1});
    if (result != driver::kSuccess) fail(result, "cuMemSetAccess", start, bytes);
  }
  ordinals_.push_back(ordinal);
}

VirtualMemorySpace::Exported VirtualMemorySpace::export_handle_at(Address address) {
  const MutexLock lock(mutex_);
  auto [start, mapping] = ledger_.mapping_at(address);
  Exported exported{-1, start, mapping.bytes};
  driver::Result result = driver_.call().MemExportToShareableHandle(
      &exported.file, handles_.at(static_cast<uint64_t>(mapping.handle)),
      driver::kHandleFileDescriptor, 0);
  if (result != driver::kSuccess) {
    fail(result, "cuMemExportToShareableHandle", start, mapping.bytes);
  }
  return exported;
}

void VirtualMemorySpace::check_invariants() const {
  const MutexLock lock(mutex_);
  ledger_.check_invariants();
  TIDEPOOL_CHECK(handles_.size() == ledger_.handle_count(), "(3) %zu handles of the driver, %zu",
                 handles_.size(), ledger_.handle_count());
}

}  // namespace tidepool::device
