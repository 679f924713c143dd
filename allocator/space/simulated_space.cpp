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

HandleId SimulatedSpace::create_handle(size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_size("create_handle", bytes);
  return ledger_.create_handle(bytes);
}

void SimulatedSpace::release_handle(HandleId handle) {
  const MutexLock lock(mutex_);
  ledger_.check_release_handle(handle);
  ledger_.release_handle(handle);
}

void SimulatedSpace::map(Address address, size_t bytes, HandleId handle) {
  const MutexLock lock(mutex_);
  ledger_.check_map(address, bytes, handle);
  ledger_.map(address, handle);
}

void SimulatedSpace::set_access(Address address, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_set_access(address, bytes);
  ledger_.set_access(address, bytes);
}

void SimulatedSpace::unmap(Address address, size_t bytes) {
  const MutexLock lock(mutex_);
  ledger_.check_unmap(address, bytes);
  ledger_.unmap(address, bytes);
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

size_t SimulatedSpace::handle_bytes_total() const {
  const MutexLock lock(mutex_);
  return ledger_.handle_bytes_total();
}

bool SimulatedSpace::accessible(Address address, size_t bytes) const {
  const MutexLock lock(mutex_);
  return ledger_.accessible(address, bytes);
}

void SimulatedSpace::check_invariants() const {
  const MutexLock lock(mutex_);
  ledger_.check_invariants();
}

}  // namespace tidepool
