// Residency: knows where the bytes of values are. It evicts storages, by forgetting their bytes or
// by copying them to a tier, whichever costs less, and gives them bytes again; and it keeps the
// bytes of values that have no storage any more: ghosts (dead intermediates that were rebuilt for a
// restoration) and retained roots (dead roots that evicted values need).
// Owns the kept bytes; holds the list of resident storages with lineage and the logical clock. Not
// thread safe: the device's lock is held.
// Invariants: (1) the list holds exactly the resident storages whose value has a producer; (2)
// kept() holds exactly the values with `kept` bytes, each with its index as kept_slot; (3) a kept
// block has no owner, a resident storage's block has the storage as its owner; (4) absent_bytes()
// is the sum over the storages that are `absent`; (5) what is read and copied ahead is available.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "allocator/base/splitmix.h"
#include "allocator/budgeted_allocator.h"
#include "remat/lineage/backend.h"
#include "remat/lineage/container_bytes.h"
#include "remat/lineage/content_check.h"
#include "remat/lineage/content_watch.h"
#include "remat/lineage/lineage_store.h"
#include "remat/policies/policy.h"
#include "remat/residency/copies.h"
#include "remat/residency/pieces.h"
#include "remat/steps/foreseen_storages.h"
#include "remat/tier/tier.h"

namespace tidepool::remat {

class Residency {
 public:
  // `foreseen` outlives it. `tier`: nullptr if there is none; then nothing is evicted whose value
  // has no producer.
  Residency(BudgetedAllocator& allocator, Backend& backend, Policy& policy, LineageStore& store,
            const ForeseenStorages& foreseen, std::unique_ptr<Tier> tier = nullptr);

  // The logical clock counts the time of the job's operators, so that prices are the same in every
  // run whose operators cost the same. It advances by at least one for each operator.
  uint64_t now() const { return now_; }
  void tick(uint64_t cost_ns) { now_ += cost_ns + 1; }
  Circumstances circumstances(const Storage& storage, size_t free_beside_bytes) const {
    const uint64_t staleness_ns = now_ - storage.last_access;
    return {staleness_ns > 0 ? staleness_ns : 1, free_beside_bytes};
  }

  // Whether the storage's bytes may be taken away, provided that they can be had again.
  bool at_rest(const Storage& storage) const {
    if (storage.locks > 0) return false;
    const Value& value = *storage.current;
    return !storage.evicted && !storage.escaped && !storage.fixed && !storage.dying &&
           !storage.in_pieces && value.locks == 0 && value.kept == nullptr && frozen_ == 0;
  }
  bool evictable(const Storage& storage) const {
    return (storage.next != nullptr || leaves_by_copy(storage)) && at_rest(storage);  // invariant 1
  }
  // A step of `form` (StepList) has ended, and one of the form `next` should follow; 0: nobody
  // knows. If all that left in the last such step would keep the tier's link busy for a small part
  // of it, most of a copy's time is hidden behind operators, and copies are priced accordingly.
  void end_step(uint64_t form, uint64_t next);
  // The price of evicting the storage by the cheaper way, in the policy's unit. Requires:
  // evictable().
  double price(Storage& storage, size_t free_beside_bytes) const;

  // Begins a copy of the storage's bytes, which stay where they are: if they leave before they are
  // written, they leave at once. `over_ns`: see Copies::make_ahead(). False: they have a copy, may
  // not leave now, or there is no room for a copy that nobody waits for.
  bool copy_ahead(Storage& storage, uint64_t over_ns);

  // Takes the storage's bytes away. True: the block is the caller's, who takes the owner from it.
  bool evict(Storage& storage);
  // Takes the storage's bytes away and frees the block. False: nothing has happened.
  bool evict_and_free(Storage& storage);
  // Evicts all that can be, or, with odds > 1, one in `odds` by `random`. Returns how many.
  size_t evict_everything(uint64_t odds, SplitMix* random);

  // Gives the block at `address` to an evicted storage. False: the storage is dying, and the block
  // is still the caller's.
  bool install(Storage& storage, void* address);

  // Begins a move: takes the bytes from the storage; its value keeps them. False: the storage is
  // dying. Requires: at_rest().
  bool set_aside(Storage& storage);
  // Ends a move: gives the storage the block `to`, which has the same contents; the old block has
  // no owner any more and is the caller's. False: `to` is nullptr, and the storage has its old
  // bytes again; or the storage is dying, and its value keeps them.
  bool put_back(Storage& storage, void* to);

  // Keeps the bytes at `address` for a value that has no storage.
  void keep(Value& value, void* address);
  void free_kept(Value& value);
  // Takes the kept bytes from the value; the block is the caller's then.
  void* take_kept(Value& value);
  const std::vector<Value*>& kept() const { return kept_; }
  // Copies the retained roots that nothing uses now to the tier, and frees their blocks. Returns
  // how many.
  size_t offload_retained();

  // Tells the policy that the value's availability has changed; where its bytes are gone, a copy
  // that was made ahead stands for them. Requires: all its edges are in place.
  void availability_changed(Value& value) {
    if (value.copied && !value.available()) [[unlikely]]
      copies.left(value);
    policy_.availability_changed(value);
  }

  // Enters a resident storage, whose value has got a producer, into the list; takes it out of it.
  void list(Storage& storage);
  void unlist(Storage& storage);
  // The list from the storage that was entered last on.
  Storage* first_listed() { return list_.next != &list_ ? list_.next : nullptr; }
  Storage* next_listed(Storage* storage) {
    return storage->next != &list_ ? storage->next : nullptr;
  }
  // The list from the storage that was entered first on.
  Storage* last_listed() { return list_.previous != &list_ ? list_.previous : nullptr; }
  Storage* previous_listed(Storage* storage) {
    return storage->previous != &list_ ? storage->previous : nullptr;
  }

  // How many bytes the evicted storages had that are alive.
  size_t absent_bytes() const { return absent_bytes_; }
  // A storage ends; its value is still there.
  void ends(Storage& storage) { set_absent(storage, false); }

  // Has who waits for the tier's copies so far in a direction not wait for the next one, too.
  void close_copies(CopyDirection direction);

  // Stops evictions until thaw() has been called as often. (In a forked child it never is.)
  void freeze() { ++frozen_; }
  void thaw() { --frozen_; }

  // From now on contents without lineage stay where they are.
  void keep_roots() { roots_leave_ = false; }
  // From now on contents without lineage are copied only when they leave.
  void copy_no_roots_ahead() { copies_roots_ahead_ = false; }
  bool offloads_roots() const { return roots_leave_ && copies.enabled(); }

  // From now on the way in which something is evicted is random, and so is whether it is copied
  // ahead; for chaos.
  void choose_ways_at_random(uint64_t seed) { random_ways_.emplace(seed); }

  size_t bookkeeping_bytes() const {
    return bytes_of(kept_) + check.bookkeeping_bytes() + watch.bookkeeping_bytes() +
           pieces.bookkeeping_bytes() + copies.bookkeeping_bytes();
  }

  // Does what LineageStore::Observer asks for.
  void value_dies(Value& value);
  void check_invariants(const LineageStore& store) const;

  Copies copies;
  ContentCheck check;
  ContentWatch watch;
  Pieces pieces;
  uint64_t evictions = 0;
  uint64_t evicted_bytes = 0;
  uint64_t offloads = 0;         // evictions that left a copy in the tier
  uint64_t offloaded_bytes = 0;  // by them
  uint64_t rematerializations = 0;
  uint64_t moves = 0;

 private:
  struct Exposure {
    uint64_t form = 0;
    double part = 1;  // of copies' prices, that counts
  };

  void set_absent(Storage& storage, bool absent);
  // Whether the storage's contents have no lineage, but may go by a copy for which there is a
  // place.
  bool leaves_by_copy(const Storage& storage) const;
  // What forgetting the storage's bytes costs, and what copying them does, in the policy's unit;
  // infinity where it cannot be done.
  double forgetting_price(Storage& storage, const Circumstances& now) const;
  double copying_price(const Storage& storage, const Circumstances& now) const;
  bool is_better_copied(Storage& storage);
  bool is_copied_ahead_at_random(Storage& storage);
  // Makes sure that the tier has a copy of the value's bytes, which are in the block at `address`.
  bool copy_out(Value& value, void* address);
  // Calls make(users) to enqueue a copy from the block, and notes the use of the block by it.
  template <class Make>
  bool enqueue_copy(Value& value, void* address, Make&& make);

  BudgetedAllocator& allocator_;
  Backend& backend_;
  Policy& policy_;
  LineageStore& store_;
  const ForeseenStorages& foreseen_;
  std::optional<SplitMix> random_ways_;
  bool roots_leave_ = true;
  bool copies_roots_ahead_ = true;
  Storage list_;  // head of the ring
  std::vector<Value*> kept_;
  size_t absent_bytes_ = 0;
  std::vector<Exposure> exposures_;  // of the forms of the last steps
  double exposure_ = 1;              // that of the expected step
  uint64_t step_began_ns_ = 0, evicted_before_step_ = 0;
  uint64_t now_ = 1;
  uint32_t frozen_ = 0;
};

}  // namespace tidepool::remat
