// CountingSpace: wraps an AddressSpace and counts, by its own books, the bytes held from it; the
// first byte over the budget throws BudgetBroken, which no one but a test catches.
// Counts created handles, and apart from them the bytes mapped; whichever is greater holds.
// Does not own what it wraps. Thread safe.
#pragma once

#include <map>
#include <mutex>

#include "tests/support/forwarding_space.h"

namespace tidepool::test {

class BudgetBroken : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class CountingSpace final : public ForwardingSpace {
 public:
  CountingSpace(AddressSpace& inner, size_t budget_bytes)
      : ForwardingSpace(inner), budget_bytes_(budget_bytes) {}

  size_t held_bytes() const;
  size_t held_peak_bytes() const;
  size_t device_calls() const;

  HandleId create_handle(size_t bytes) override;
  void release_handle(HandleId handle) override;
  void map(Address address, size_t bytes, HandleId handle) override;
  void set_access(Address address, size_t bytes) override;
  void unmap(Address address, size_t bytes) override;
  MoveResult move(HandleId handle, Address from, Address to, size_t bytes) override;

 private:
  void check_budget();  // Requires: mutex_ held

  const size_t budget_bytes_;
  mutable std::mutex mutex_;
  std::map<HandleId, size_t> handles_;
  std::map<Address, size_t> mapped_;
  size_t handle_bytes_ = 0;
  size_t mapped_bytes_ = 0;
  size_t peak_bytes_ = 0;
  size_t device_calls_ = 0;
};

}  // namespace tidepool::test
