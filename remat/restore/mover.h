// Mover: gives the contents of a storage other bytes, so that its block can go: copying, where
// evicting would cost more or is impossible (contents without lineage). The framework's storage has
// no bytes meanwhile, and the value keeps the old block; as the mover holds the turn of
// restorations (RestorationQueue), whoever wants the storage waits until it has its new ones.
// Owns nothing. Not thread safe: the device's lock is held; move() releases it while it copies.
#pragma once

#include "allocator/budgeted_allocator.h"
#include "remat/lineage/backend.h"
#include "remat/lineage/lineage_store.h"
#include "remat/restore/dependent_cut.h"
#include "remat/restore/replay_stream_order.h"
#include "remat/restore/residency.h"
#include "remat/restore/restoration_queue.h"

namespace tidepool::remat {

class Mover {
 public:
  Mover(BudgetedAllocator& allocator, Backend& backend, LineageStore& store, Residency& residency,
        DependentCut& dependent_cut, RestorationQueue& queue, ReplayStreamOrder& replay_order)
      : allocator_(allocator),
        backend_(backend),
        store_(store),
        residency_(residency),
        dependent_cut_(dependent_cut),
        queue_(queue),
        replay_order_(replay_order) {}

  // Nobody uses the storage, nobody has its address, no other thread is restoring, and an operator
  // has made the contents.
  bool movable(const Storage& storage) const;

  // Of moving so much, in the unit of operators' costs.
  uint64_t cost_ns(size_t bytes) const { return backend_.copy_ns(bytes); }

  // See Reclaimer::move(). Requires: movable.
  bool move(Storage& storage, void* to, DeviceLock& lock);

 private:
  bool copy(Value& value, void* to, DeviceLock& lock);

  BudgetedAllocator& allocator_;
  Backend& backend_;
  LineageStore& store_;
  Residency& residency_;
  DependentCut& dependent_cut_;
  RestorationQueue& queue_;
  ReplayStreamOrder& replay_order_;
};

}  // namespace tidepool::remat
