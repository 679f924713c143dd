// DependentCut: what happens to the values below a root when its bytes go away: the walk from a
// value through dead intermediates to the live values that depend on it, and the release of
// retained roots that nothing evicted needs any more.
// Not thread safe: the device's lock is held. No recursion. Amortised constant per record where
// the walk ends in a cut, since the records walked over are given up.
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

  // Live values that can be reached from `value` without passing a live one (but for those whose
  // storages are being written, which are reached and passed).
  Dependents dependents(const Value& value);

  // True if an evicted live value depends on `value`.
  bool is_needed(const Value& value);

  // Live resident dependents become roots. Requires: no live dependent is evicted.
  void cut_dependents(const Dependents& dependents, RootReason reason);

  // The storage of a root with readers is gone; `address` is the block with its bytes, which has no
  // owner yet. True: they are kept. False: dependents are roots now, the caller frees the block.
  bool retain_or_cut(Value& value, void* address);

  // Frees the bytes of dead roots that no evicted live value needs and no plan will read. Returns
  // how many were freed. Linear in the retained roots and the records that depend on them.
  size_t sweep();
  // sweep() if something may have changed for a retained root since the last one.
  void sweep_if_due() {
    if (sweep_due_) [[unlikely]] sweep();
  }
  bool sweep_is_due() const { return sweep_due_; }
  void make_sweep_due() { sweep_due_ = !residency_.kept().empty(); }

  void check_invariants();

  uint64_t retained = 0;  // so far
  uint64_t checks = 0;    // outputs and inputs of records that walks looked at

 private:
  // Whether contents that depend on the value's depend on those above it: it has no bytes that
  // last.
  static bool passes(const Value& value) { return !value.live() || value.storage->writing; }
  static bool is_retained(const Value& value) {
    return value.kept != nullptr && value.producer == nullptr && value.storage == nullptr;
  }
  void walk(std::span<const Value* const> from, Dependents* found, bool first_evicted_only);
  uint32_t mark_needed();
  void release(Value& value);

  LineageStore& store_;
  Residency& residency_;
  std::vector<const Value*> pending_;
  bool sweep_due_ = false;
};

}  // namespace tidepool::remat
