// VirtualMemorySpace: an AddressSpace over a device's virtual memory: ranges of addresses, handles
// of physical memory, and mappings of handles into ranges.
// Owns what it has created until that is released; the driver must outlive it. Thread safe: calls
// wait for each other. Unmapping does not wait for work on the device; the caller makes sure that
// none uses the memory.
// Invariants: those of MappingLedger; (3) exactly the live handles stand for one of the driver's.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "allocator/space/ledger_space.h"
#include "cuda/driver/driver.h"

namespace tidepool::device {

struct VirtualMemoryOptions {
  size_t granularity = 0;  // a multiple of the device's own, or 0 for the device's own
};

class VirtualMemorySpace final : public LedgerSpace {
 public:
  // Throws: DeviceError if the device has no virtual memory, or cannot do what the options ask for.
  explicit VirtualMemorySpace(Driver& driver, const VirtualMemoryOptions& options = {});

  size_t available_bytes() override { return driver_.free_bytes(); }
  Address reserve(size_t bytes) override;
  void release_range(Address start, size_t bytes) override;
  HandleId create_handle(size_t bytes) override;
  void release_handle(HandleId handle) override;
  void map(Address address, size_t bytes, HandleId handle) override;
  void set_access(Address address, size_t bytes) override;
  // Unmaps a run by one call of the driver, however many mappings it has.
  void unmap(Address address, size_t bytes) override;
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override;
  // Overwrites bytes for debugging. Waits for all work on the device, before and after.
  void fill(Address address, size_t bytes, unsigned char value) override;

  // Lets work on another device access what is accessible now or later. Another call for the same
  // device does nothing. Throws: DeviceError; then the peer may access a part of it.
  void add_peer(int ordinal);

  struct Exported {
    int file = -1;  // stands for the handle's memory; the caller has to close it
    Address start;  // where the handle is mapped
    size_t bytes = 0;
  };
  // Whether handles can be shared with other processes by file descriptors, and read by network
  // cards without a copy. Both are so where the device says that it can and does it.
  bool is_exportable() const {
    return properties_.requested_handle_types == driver::kHandleFileDescriptor;
  }
  bool is_rdma_capable() const { return properties_.flags.gpu_direct_rdma_capable != 0; }
  // Exports the handle behind a mapped address. Requires: is_exportable().
  Exported export_handle_at(Address address);

  void check_invariants() const;

 private:
  VirtualMemorySpace(Driver& driver, const VirtualMemoryOptions& options,
                     const driver::AllocationProperties& properties);
  // Throws: DeviceBroken, or else DeviceError.
  [[noreturn]] void fail(driver::Result result, const char* call, Address address,
                         size_t bytes) const;
  driver::Result grant(Address address, size_t bytes, std::span<const int> ordinals);

  Driver& driver_;
  driver::AllocationProperties properties_;
  std::unordered_map<uint64_t, driver::AllocationHandle> handles_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> ordinals_ ABSL_GUARDED_BY(mutex_);  // the device itself, then its peers
};

}  // namespace tidepool::device
