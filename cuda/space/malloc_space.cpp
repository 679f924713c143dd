#include "cuda/space/malloc_space.h"

#include "allocator/base/sizes.h"
#include "cuda/space/fill.h"

namespace tidepool::device {

Address MallocSpace::reserve(size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_size("reserve", bytes);
  Driver::Scope scope(driver_);
  driver::DevicePointer start = 0;
  driver::Result result = driver_.call().MemAlloc(&start, bytes);
  if (result != driver::kSuccess) {
    throw driver_.error(result, "cuMemAlloc of " + human_and_exact_bytes(bytes));
  }
  Address address{static_cast<uintptr_t>(start)};
  ledger_.add_range(address, bytes);
  return address;
}

void MallocSpace::release_range(Address start, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_release_range(start, bytes);
  Driver::Scope scope(driver_);
  driver_.check(driver_.call().MemFree(start.value), "cuMemFree");
  ledger_.release_range(start);
}

MoveResult MallocSpace::move(HandleId, Address, Address, size_t) { return MoveResult::kStayed; }

void MallocSpace::fill(Address address, size_t bytes, unsigned char value) {
  fill_device(driver_, address, bytes, value);
}

}  // namespace tidepool::device
