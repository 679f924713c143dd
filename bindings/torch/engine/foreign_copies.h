// ForeignCopies: copies, in memory of ours, of what operators read in memory of others (NumPy
// arrays, batches of a DataLoader's workers, parameters that safetensors has mapped or that were
// there before us), so that results can be made again from the copies. A
// copy is used as long as it equals its source; what happens to the source does not change it.
// Owns the copies, which are ordinary tracked storages without lineage. A copy is dropped when its
// source has died or changed, when no record reads it, when a whole step has not used it, and when
// memory is short. It dies as any root does: evicted values that need it keep its bytes, resident
// ones lose their lineage. Thread safe: the books need the device's lock, which each function takes
// unless it is passed; bytes are copied and compared without it.
// Invariant: (1) no more than kMost copies; (2) no two have the same source region.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "allocator/locks/device_mutex.h"
#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage.h"
#include "remat/locked_storage.h"

namespace tidepool::torch_glue {

class Engine;

struct ForeignCopyStatistics {
  uint64_t copies = 0;    // made so far
  uint64_t uses = 0;      // by operators, the first of each copy included
  uint64_t changed = 0;   // sources that changed while an operator read them
  uint64_t given_up = 0;  // copies dropped because memory was short
  size_t bytes = 0;       // held now
};

class ForeignCopies {
 public:
  // The bytes that a tensor shows in a storage of others.
  struct Region {
    c10::StorageImpl* storage = nullptr;
    const char* first = nullptr;
    size_t bytes = 0;
    // A copy lies as far behind a boundary of kAlignment bytes as its source: libraries may compute
    // other bits elsewhere.
    size_t lead_bytes() const { return reinterpret_cast<uintptr_t>(first) % kAlignment; }
  };
  static constexpr size_t kAlignment = 64;

  ForeignCopies(Engine& engine, size_t budget_bytes)
      : engine_(engine), most_bytes_(budget_bytes / kShare) {}

  // A call that reads more bytes than this has no copies, because they would not be worth their
  // room.
  size_t most_bytes() const { return most_bytes_; }

  // The region that a tensor shows; nullopt if it has no bytes, or shows a small part of a large
  // region.
  static std::optional<Region> region_of(const c10::TensorImpl& tensor);

  // A copy whose bytes, from lead_bytes() on, equal those of the region: one that there is already,
  // or a `fresh` one. nullopt: memory does not suffice. Requires: the device's lock is not held.
  struct Copy {
    remat::HeldStorage storage;
    bool fresh = false;
  };
  std::optional<Copy> obtain(const Region& region);

  // Whether the region still equals its copy, which the caller has locked.
  bool still_equal(const Region& region, remat::Storage& copy);
  void note_change(remat::Storage& copy);
  // Drops the copy, which is not used any more.
  void drop(remat::Storage& copy);

  // Whether copies pay for this kind of call; they do not if its results take less than the copies.
  // pays() requires: lock held.
  bool pays(uint64_t timing_key) const { return !unpaid_.contains(timing_key); }
  void note_unpaid(uint64_t timing_key);

  // Drops all copies. True if there were any. The lock is released meanwhile.
  bool give_up(DeviceLock& lock);
  void end_step();
  // The bytes of the books, without the copies' contents. Requires: lock held.
  size_t bookkeeping_bytes() const {
    return remat::bytes_of(entries_) + entries_.size() * sizeof(c10::StorageImpl) +
           remat::bytes_of(unpaid_);
  }
  ForeignCopyStatistics statistics() const;

 private:
  static constexpr size_t kShare = 8;
  static constexpr size_t kMost = 1024;  // as many as a network has parameters
  static constexpr size_t kMostKinds = 4096;

  struct Entry {
    Region source;  // its storage is held weakly
    c10::Storage copy;
    remat::Storage* tracked;
    uint64_t used_step;
  };
  using Dropped = std::vector<Entry>;  // to be destroyed without the lock

  static bool equal(const Region& region, const remat::Storage& copy);
  Entry* find(const Region& region);
  // Moves the entries for which `wanted(const Entry&)` holds to `dropped`. Requires: lock held.
  template <class Wanted>
  void take_out(Dropped& dropped, Wanted&& wanted);
  void take_out_stale(Dropped& dropped);
  // The copy that there is already; one that differs from the region by now is dropped.
  std::optional<Copy> find_equal(const Region& region);
  std::optional<Copy> make_copy(const Region& region);

  Engine& engine_;
  const size_t most_bytes_;
  std::vector<Entry> entries_;  // oldest first
  absl::flat_hash_set<uint64_t> unpaid_;
  uint64_t step_ = 0;
  ForeignCopyStatistics statistics_;
};

}  // namespace tidepool::torch_glue
