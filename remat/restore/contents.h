// Contents: the contents of one device's storages, as several parts know them: which operators made
// them (store), what evicting them costs (policy), when they are used next (foreseen), where their
// bytes are (residency), what depends on a root that is lost (dependent_cut), which thread may
// restore (queue), and how hidden work is ordered on streams (replay_order). It makes these parts,
// each of which has its own state and its own contract; whatever restores, moves, changes or bounds
// contents gets all of them together.
// Not thread safe: the device's lock is held, also when it is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "allocator/budgeted_allocator.h"
#include "remat/lineage/backend.h"
#include "remat/lineage/lineage_store.h"
#include "remat/policies/policy.h"
#include "remat/residency/dependent_cut.h"
#include "remat/residency/replay_stream_order.h"
#include "remat/residency/residency.h"
#include "remat/restore/restoration_queue.h"
#include "remat/steps/foreseen_storages.h"

namespace tidepool::remat {

class Contents final : private LineageStore::Observer {
 public:
  // `tier`: where contents may go beside being forgotten; nullptr: nowhere. Throws:
  // std::invalid_argument naming an unknown policy, or one that cannot price copies, with a tier.
  Contents(BudgetedAllocator& the_allocator, Backend& the_backend, const std::string& policy_name,
           uint64_t seed = 0, std::unique_ptr<Tier> tier = nullptr);
  ~Contents() override { clear(); }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  // Forgets all storages; bytes that were kept go back to the allocator.
  void clear();

  // Locks a storage against eviction for the length of an operation.
  void lock(Storage& storage) { ++storage.locks; }
  void unlock(Storage& storage) {
    if (--storage.locks == 0 && (storage.dead || storage.unwatched)) [[unlikely]]
      let_go(storage);
  }

  // Prices copies by what they have cost so far from now on.
  void settle_prices();

  // The bytes that the parts keep beside contents and the store's lineage.
  size_t side_bytes() const;

  BudgetedAllocator& allocator;
  Backend& backend;
  LineageStore store;
  const std::unique_ptr<Policy> policy;
  ForeseenStorages foreseen;  // it is only told of them where there is a tier
  Residency residency;
  DependentCut dependent_cut;
  RestorationQueue queue;
  ReplayStreamOrder replay_order;

 private:
  void value_dies(Value& value) override { residency.value_dies(value); }
  void let_go(Storage& storage);
};

}  // namespace tidepool::remat
