#include "allocator/space/simulated_space.h"

#include "allocator/base/sizes.h"

namespace tidepool {

Address SimulatedSpace::reserve(size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_size("reserve", bytes);
  Address start{round_up(next_.value, granularity())};
  next_ = start + bytes + granularity();  // a gap, so that ranges never touch
  ledger_.add_range(start, bytes);
  return start;
}

void SimulatedSpace::release_range(Address start, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_release_range(start, bytes);
  ledger_.release_range(start);
}

MoveResult SimulatedSpace::move(HandleId handle, Address from, Address to, size_t bytes) try {
  const MutexLock lock(mutex_);
  ledger_.check_move(handle, from, to, bytes);
  ledger_.move(handle, from, to);
  return MoveResult::kMoved;
} catch (const DeviceError&) {
  return MoveResult::kStayed;
}

void SimulatedSpace::fill(Address address, size_t bytes, unsigned char) {
  if (!accessible(address, bytes)) throw DeviceError("fill of bytes that are not accessible");
}

bool SimulatedSpace::accessible(Address address, size_t bytes) const {
  const MutexLock lock(mutex_);
  return ledger_.accessible(address, bytes);
}

}  // namespace tidepool
