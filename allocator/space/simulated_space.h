// SimulatedSpace: an AddressSpace of addresses without memory behind them, for simulations and for
// arenas of any size in tests. It enforces every rule of address_space.h. Its addresses are the
// same in every run. Thread safe. Invariants: those of MappingLedger.
#pragma once

#include "allocator/space/ledger_space.h"

namespace tidepool {

class SimulatedSpace final : public LedgerSpace {
 public:
  explicit SimulatedSpace(size_t granularity = size_t{64} << 10, size_t mapping_limit = SIZE_MAX)
      : LedgerSpace(granularity, mapping_limit) {}

  Address reserve(size_t bytes) override;
  void release_range(Address start, size_t bytes) override;
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override;
  void fill(Address address, size_t bytes, unsigned char value) override;

  bool accessible(Address address, size_t bytes) const;

 private:
  Address next_ ABSL_GUARDED_BY(mutex_){size_t{1} << 44};
};

}  // namespace tidepool
