#include "remat/restore/mover.h"

#include "allocator/space/address_space.h"

namespace tidepool::remat {

bool Mover::movable(const Storage& storage) const {
  // Parameters and other things that the job keeps are never moved, because code beyond PyTorch's
  // operators may hold raw pointers to them unseen.
  const bool came_of_an_operator = storage.current->producer != nullptr ||
                                   storage.role == Role::kOther || storage.role == Role::kGradient;
  return came_of_an_operator && contents_.residency.at_rest(storage) &&
         storage.current->uses == 0 && (contents_.queue.is_free() || contents_.queue.is_my_turn());
}

// Copies the value's bytes to the block `to`. False if the device refuses; then nothing has
// happened.
bool Mover::copy(Value& value, void* to, DeviceLock& lock) {
  const StreamId stream = contents_.replay_order.stream();
  void* const from = value.address();
  // Blocks of other streams are left alone, because their uses would have to be awaited.
  if (contents_.allocator.stream(from) != stream || contents_.allocator.stream(to) != stream)
    return false;
  try {
    contents_.replay_order.before_use(value, stream, lock);
  } catch (const DeviceError&) {
    return false;
  }
  bool copied = true;
  {
    Unlocked unlocked(lock);
    try {
      contents_.backend.copy(to, from, value.bytes);
    } catch (...) {  // the device's error will come again, to the job's own work
      copied = false;
    }
  }
  try {
    contents_.replay_order.after_use(value, stream, lock);
  } catch (const DeviceError&) {
    return false;
  }
  return copied;
}

bool Mover::move(Storage& storage, void* to, DeviceLock& lock) {
  Value& value = *storage.current;
  if (!contents_.residency.set_aside(storage)) return false;
  contents_.queue.take_turn(lock);  // without a wait: it is free, or this thread's
  contents_.lock(storage);
  ++value.references;
  ++value.uses;  // keeps the bytes that are read, whatever becomes of the storage
  ++value.locks;
  const bool copied = copy(value, to, lock);
  --value.locks;
  --value.uses;
  // The job may have freed the storage meanwhile. Then a root's bytes stay kept for those that need
  // them.
  bool moved = false;
  if (!storage.dead) {
    moved = contents_.residency.put_back(storage, copied ? to : nullptr);
  } else if (value.producer != nullptr) {
    contents_.residency.free_kept(value);
    contents_.residency.availability_changed(value);
  }
  contents_.queue.end_turn();
  contents_.dependent_cut.make_sweep_due();  // kept bytes may not be needed any more
  contents_.store.release(&value);
  contents_.unlock(storage);
  return moved;
}

}  // namespace tidepool::remat
