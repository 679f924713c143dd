// Mover: gives the contents of a storage other bytes, so that its block can go: copying, where
// evicting would cost more or is impossible (contents without lineage). The framework's storage has
// no bytes meanwhile, and the value keeps the old block; as the mover holds the turn of
// restorations (RestorationQueue), whoever wants the storage waits until it has its new ones.
// Owns nothing. Not thread safe: the device's lock is held; move() releases it while it copies.
#pragma once

#include "remat/restore/contents.h"

namespace tidepool::remat {

class Mover {
 public:
  explicit Mover(Contents& contents) : contents_(contents) {}

  // Nobody uses the storage, nobody has its address, no other thread is restoring, and an operator
  // has made the contents.
  bool movable(const Storage& storage) const;

  // Of moving so much, in the unit of operators' costs.
  uint64_t cost_ns(size_t bytes) const { return contents_.backend.copy_ns(bytes); }

  // See Reclaimer::move(). Requires: movable.
  bool move(Storage& storage, void* to, DeviceLock& lock);

 private:
  bool copy(Value& value, void* to, DeviceLock& lock);

  Contents& contents_;
};

}  // namespace tidepool::remat
