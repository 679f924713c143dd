#include "cuda/space/malloc_space.h"

#include "allocator/base/sizes.h"
#include "cuda/space/fill.h"

namespace tidepool::device {

Address MallocSpace::reserve(size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.check_size("reserve", bytes);
  Driver::Scope scope(driver_);
  driver::DevicePointer start = 0;
  driver::Result result = driver_.call().cuMemAlloc(&start, bytes);
  if (result != driver::kSuccess) {
    throw driver_.error(result, "cuMemAlloc of " + human_and_exact_bytes(bytes));
  }
  Address address{static_cast<uintptr_t>(start)};
  ledger_.add_range(address, bytes);
  return address;
}

void MallocSpace::release_range(Address start, size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.check_release_range(start, bytes);
  Driver::Scope scope(driver_);
  driver_.check(driver_.call().cuMemFree(start.value), "cuMemFree");
  ledger_.release_range(start);
}

HandleId MallocSpace::create_handle(size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.check_size("create_handle", bytes);
  return ledger_.create_handle(bytes);
}

void MallocSpace::release_handle(HandleId handle) {
  std::lock_guard lock(mutex_);
  ledger_.check_release_handle(handle);
  ledger_.release_handle(handle);
}

void MallocSpace::map(Address address, size_t bytes, HandleId handle) {
  std::lock_guard lock(mutex_);
  ledger_.check_map(address, bytes, handle);
  ledger_.map(address, handle);
}

void MallocSpace::set_access(Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.check_set_access(address, bytes);
  ledger_.set_access(address, bytes);
}

void MallocSpace::unmap(Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.check_unmap(address, bytes);
  ledger_.unmap(address, bytes);
}

MoveResult MallocSpace::move(HandleId, Address, Address, size_t) { return MoveResult::kStayed; }

void MallocSpace::fill(Address address, size_t bytes, unsigned char value) {
  fill_device(driver_, address, bytes, value);
}

void MallocSpace::check_invariants() const {
  std::lock_guard lock(mutex_);
  ledger_.check_invariants();
}

}  // namespace tidepool::device
