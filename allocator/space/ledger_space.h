// LedgerSpace: the base of address spaces that keep a MappingLedger. What it does for a call is to
// check it and to enter it into the ledger; a space overrides the calls that need more than that.
// Owns the ledger and the lock that guards it. Thread safe. Invariants: those of MappingLedger.
#pragma once

#include "allocator/locks/lock_order.h"
#include "allocator/space/mapping_ledger.h"

namespace tidepool {

class LedgerSpace : public AddressSpace {
 public:
  // Neither changes, so that no lock is needed.
  size_t granularity() const final ABSL_NO_THREAD_SAFETY_ANALYSIS { return ledger_.granularity(); }
  size_t mapping_limit() const final ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return ledger_.mapping_limit();
  }

  HandleId create_handle(size_t bytes) override {
    const MutexLock lock(mutex_);
    ledger_.check_size("create_handle", bytes);
    return ledger_.create_handle(bytes);
  }
  void release_handle(HandleId handle) override {
    const MutexLock lock(mutex_);
    ledger_.check_release_handle(handle);
    ledger_.release_handle(handle);
  }
  void map(Address address, size_t bytes, HandleId handle) override {
    const MutexLock lock(mutex_);
    ledger_.check_map(address, bytes, handle);
    ledger_.map(address, handle);
  }
  void set_access(Address address, size_t bytes) override {
    const MutexLock lock(mutex_);
    ledger_.check_set_access(address, bytes);
    ledger_.set_access(address, bytes);
  }
  void unmap(Address address, size_t bytes) override {
    const MutexLock lock(mutex_);
    ledger_.check_unmap(address, bytes);
    ledger_.unmap(address, bytes);
  }

  size_t handle_bytes_total() const {
    const MutexLock lock(mutex_);
    return ledger_.handle_bytes_total();
  }
  void check_invariants() const {
    const MutexLock lock(mutex_);
    ledger_.check_invariants();
  }

 protected:
  LedgerSpace(size_t granularity, size_t mapping_limit) : ledger_(granularity, mapping_limit) {}

  mutable RankedMutex<LockRank::kSpace> mutex_;
  MappingLedger ledger_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool
