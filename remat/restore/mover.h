// Mover: moves the contents of a storage to another block by copying, so that the storage's block
// can go, where evicting would cost more or is impossible (contents without lineage). Meanwhile the
// framework's storage has no bytes, and its value keeps the old block. The mover holds the turn of
// restorations (RestorationQueue), so that whoever wants the storage waits until it has its new
// block.
// Owns nothing. Not thread safe: the device's lock is held; move() releases it while it copies.
#pragma once

#include "remat/restore/contents.h"

namespace tidepool::remat {

class Mover {
 public:
  explicit Mover(Contents& contents) : contents_(contents) {}

  // Whether the storage may be moved now: nobody uses it or has its address, no other thread is
  // restoring, and an operator has made the contents.
  bool movable(const Storage& storage) const;

  // What moving so many bytes costs, in the unit of operators' costs.
  uint64_t cost_ns(size_t bytes) const { return contents_.backend.copy_ns(bytes); }

  // Does what Reclaimer::move() says. Requires: movable().
  bool move(Storage& storage, void* to, DeviceLock& lock);

 private:
  bool copy(Value& value, void* to, DeviceLock& lock);

  Contents& contents_;
};

}  // namespace tidepool::remat
