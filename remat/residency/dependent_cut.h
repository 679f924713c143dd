// DependentCut: decides what happens to the values below a root when the root's bytes go away. It
// walks from a value through dead intermediates to the live values that depend on it, cuts these
// from their lineage, and releases retained roots that nothing evicted needs any more. Not thread
// safe: the device's lock is held. No recursion. A walk that ends in a cut takes amortised constant
// time for each record, because the records walked over are given up.
// Invariant: (1) every evicted live value can be produced: going up from it through unavailable
// values, each has a producer, until all are available.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "remat/lineage/lineage_store.h"
#include "remat/residency/residency.h"

namespace tidepool::remat {

struct Dependents {
  absl::InlinedVector<Value*, 8> evicted;
  absl::InlinedVector<Value*, 8> resident;
};

class DependentCut {
 public:
  DependentCut(LineageStore& store, Residency& residency) : store_(store), residency_(residency) {}

  // The live values that can be reached from `value` without passing a live one; but walks do pass
  // values whose storages are being written.
  Dependents dependents(const Value& value);

  // Makes the dependents, which are live and resident, roots. Requires: no live dependent is
  // evicted.
  void cut_dependents(const Dependents& dependents, RootReason reason);

  // Decides about the bytes at `address` of a root with readers whose storage is gone. True: they
  // are kept. False: the dependents are roots now, and the caller frees the block. A root that is
  // a number, such as one that an operator wraps in a tensor, one that has lost its lineage only to
  // a limit on lineage, or one whose storage `will_be_refilled`, is kept as a spare one for
  // resident dependents of more bytes, because they could not be evicted otherwise; after a limit
  // only of twice its own, and once anything has been evicted.
  bool retain_or_cut(Value& value, void* address, bool will_be_refilled = false);

  enum class Spares : uint8_t { kStay, kGo };
  // Frees the bytes of retained roots that no evicted live value needs and no plan will read; of
  // spare ones, as `spares` says. Returns how many roots these were. Linear in the retained roots
  // and the records that depend on them.
  size_t sweep(Spares spares);
  // Calls sweep() if something may have changed for a retained root since the last one.
  void sweep_if_due() {
    if (sweep_due_) [[unlikely]]
      sweep(Spares::kStay);
  }
  bool sweep_is_due() const { return sweep_due_; }
  void make_sweep_due() { sweep_due_ = !residency_.kept().empty(); }

  void check_invariants();

  uint64_t retained = 0;  // so far
  uint64_t checks = 0;    // how many outputs and inputs of records walks have looked at

 private:
  // Contents of at most this many bytes count as a number.
  static constexpr size_t kNumberBytes = 64;
  // A walk that ends in no cut is not paid for by records given up. Where it was longer than this
  // many looks, the dependents are cut, so that roots which die one after the other above the same
  // dead records do not walk over all of them each.
  static constexpr uint64_t kShortWalk = 256;
  // The same for roots by limits, of which there is one in as many records as a chain may have.
  static constexpr uint64_t kLongWalk = 1024;
  // Their dependents have to have so many times their bytes, since several of these may be needed
  // for the same ones.
  static constexpr size_t kLimitTimes = 2;

  // Whether what depends on the value depends on what is above it, too, because the value has no
  // bytes that last.
  static bool passes(const Value& value) {
    return !value.copied && (!value.live() || value.storage->writing);
  }
  static bool is_retained(const Value& value) {
    return value.kept != nullptr && value.producer == nullptr && value.storage == nullptr;
  }
  static bool is_root_by_limit(const Value& value) {
    return value.reason == RootReason::kDepthLimit || value.reason == RootReason::kVersionLimit;
  }
  // Whether it is a retained root that may be freed if nothing needs it.
  static bool may_go(const Value& value, Spares spares) {
    return is_retained(value) && !(value.spare && spares == Spares::kStay);
  }
  void walk(std::span<const Value* const> from, Dependents* found, bool first_evicted_only);
  uint32_t mark_needed(Spares spares);
  void release(Value& value);

  LineageStore& store_;
  Residency& residency_;
  std::vector<const Value*> pending_;
  bool sweep_due_ = false;
};

}  // namespace tidepool::remat
