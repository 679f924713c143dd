#include "remat/restore/mover.h"

#include "allocator/space/address_space.h"

namespace tidepool::remat {

bool Mover::movable(const Storage& storage) const {
  // Parameters and what else the job keeps are what code beyond PyTorch's operators may hold raw
  // pointers to, unseen: they stay, as they always did.
  const bool came_of_an_operator = storage.current->producer != nullptr ||
                                   storage.role == Role::kOther || storage.role == Role::kGradient;
  return came_of_an_operator && residency_.at_rest(storage) && storage.current->uses == 0 &&
         (queue_.is_free() || queue_.is_my_turn());
}

// False if the device refuses: nothing has happened then.
bool Mover::copy(Value& value, void* to, DeviceLock& lock) {
  const StreamId stream = replay_order_.stream();
  void* const from = value.address();
  // Other streams' uses of either block would have to be awaited.
  if (allocator_.stream(from) != stream || allocator_.stream(to) != stream) return false;
  try {
    replay_order_.before_use(value, stream, lock);
  } catch (const DeviceError&) {
    return false;
  }
  bool copied = true;
  lock.unlock();
  try {
    backend_.copy(to, from, value.bytes);
  } catch (...) {  // the device's errors come again, to the job's own work
    copied = false;
  }
  lock.lock();
  replay_order_.after_use(value, stream);
  return copied;
}

bool Mover::move(Storage& storage, void* to, DeviceLock& lock) {
  Value& value = *storage.current;
  if (!residency_.set_aside(storage)) return false;
  queue_.take_turn(lock);  // at once: it is free, or this thread's
  ++storage.locks;
  ++value.references;
  ++value.uses;  // whatever becomes of the storage meanwhile, the bytes that are read stay
  ++value.locks;
  const bool copied = copy(value, to, lock);
  --value.locks;
  --value.uses;
  // The job may have freed the storage meanwhile: a root's bytes stay kept, for who needs them.
  bool moved = false;
  if (!storage.dead) {
    moved = residency_.put_back(storage, copied ? to : nullptr);
  } else if (value.producer != nullptr) {
    residency_.free_kept(value);
    residency_.availability_changed(value);
  }
  queue_.end_turn();
  dependent_cut_.make_sweep_due();  // of what was kept for this value, or is kept of it
  store_.release(&value);
  if (--storage.locks == 0 && storage.dead) store_.free_storage(&storage);
  return moved;
}

}  // namespace tidepool::remat
