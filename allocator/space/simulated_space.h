// SimulatedSpace: an AddressSpace of addresses without memory behind them, for simulations and for
// arenas of any size in tests. It enforces every rule of address_space.h. Its addresses are the
// same in every run. Thread safe. Invariants: those of MappingLedger.
#pragma once

#include <mutex>

#include "allocator/locks/lock_order.h"
#include "allocator/space/mapping_ledger.h"

namespace tidepool {

class SimulatedSpace final : public AddressSpace {
 public:
  explicit SimulatedSpace(size_t granularity = size_t{64} << 10, size_t mapping_limit = SIZE_MAX)
      : ledger_(granularity, mapping_limit) {}

  size_t granularity() const override { return ledger_.granularity(); }
  size_t mapping_limit() const override { return ledger_.mapping_limit(); }
  Address reserve(size_t bytes) override;
  void release_range(Address start, size_t bytes) override;
  HandleId create_handle(size_t bytes) override;
  void release_handle(HandleId handle) override;
  void map(Address address, size_t bytes, HandleId handle) override;
  void set_access(Address address, size_t bytes) override;
  void unmap(Address address, size_t bytes) override;
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override;
  void fill(Address address, size_t bytes, unsigned char value) override;

  size_t handle_bytes_total() const;
  bool accessible(Address address, size_t bytes) const;
  void check_invariants() const;

 private:
  mutable RankedMutex<LockRank::kSpace> mutex_;
  MappingLedger ledger_;
  Address next_{size_t{1} << 44};
};

}  // namespace tidepool
