// PrivateHostSpace: an AddressSpace over private anonymous host memory, for CPU jobs. The memory is
// private, so that a forked child writes into copies of its own and never into its parent's. It
// commits pages by mprotect, and gives them back by madvise. It moves pages by mremap if the kernel
// can leave the old addresses reserved (Linux 5.7); otherwise it drops them, and new ones are
// faulted in. A created handle holds no page until it is mapped; an unmapped one has lost its
// pages.
// Owns the ranges it reserved until they are released. Thread safe. Invariants: those of
// MappingLedger; bytes outside of accessible mappings cannot be touched.
#pragma once

#include "allocator/space/ledger_space.h"

namespace tidepool {

class PrivateHostSpace final : public LedgerSpace {
 public:
  // The page of most systems. Pages as small as that are for small budgets, whose requests fail
  // when few pages are all that they have; allocator_config.h chooses larger ones.
  static constexpr size_t kGranularity = size_t{4} << 10;

  // With kGranularity, or the system's page where that is larger.
  PrivateHostSpace();
  // `granularity`: a power of two, multiple of the system's page size.
  explicit PrivateHostSpace(size_t granularity);

  Address reserve(size_t bytes) override;
  void release_range(Address start, size_t bytes) override;
  void set_access(Address address, size_t bytes) override;
  void unmap(Address address, size_t bytes) override;
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override;
  void fill(Address address, size_t bytes, unsigned char value) override;
};

}  // namespace tidepool
