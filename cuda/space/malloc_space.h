// MallocSpace: an AddressSpace for devices without virtual memory. Each range is one cuMemAlloc,
// held from reserve() to release_range(); pages are parts of it that stay where they are, and
// handles are mere numbers. So the whole budget is taken at the first allocation, and kept.
// Owns the ranges until they are released; the driver must outlive it. Thread safe. Invariants:
// those of MappingLedger.
#pragma once

#include "allocator/space/ledger_space.h"
#include "cuda/driver/driver.h"

namespace tidepool::device {

class MallocSpace final : public LedgerSpace {
 public:
  explicit MallocSpace(Driver& driver) : LedgerSpace(kAlignment, SIZE_MAX), driver_(driver) {}

  bool has_virtual_memory() const override { return false; }
  size_t available_bytes() override { return driver_.free_bytes(); }
  Address reserve(size_t bytes) override;
  void release_range(Address start, size_t bytes) override;
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override;
  // Overwrites bytes for debugging. Waits for all work on the device, before and after.
  void fill(Address address, size_t bytes, unsigned char value) override;

 private:
  static constexpr size_t kAlignment = 256;  // the least of what the driver allocates

  Driver& driver_;
};

}  // namespace tidepool::device
