// LimitKeeper: keeps lineage bounded: depth, in-place versions, age in steps, records alive.
// Where a limit is hit, a value becomes a root and its bytes stay (reported by reason).
// Not thread safe: the device's lock is held.
// Invariant: (1) no value that passed admit() is deeper than Limits::depth.
#pragma once

#include <cstddef>
#include <cstdint>

#include "remat/lineage_store.h"
#include "remat/residency.h"

namespace tidepool::remat {

struct Limits {
  uint32_t depth = 128;
  uint32_t versions = 32;
  uint32_t age_steps = 4;       // lineage older than this many steps of the job is cut
  size_t records = 1u << 20;    // records alive at once

  // Lineage grows for ever: for simulations, and comparison with systems that have no limits.
  static constexpr Limits none() {
    return {UINT32_MAX, UINT32_MAX, UINT32_MAX, SIZE_MAX};
  }
};

class LimitKeeper {
 public:
  LimitKeeper(const Limits& limits, LineageStore& store, Residency& residency)
      : limits_(limits), store_(store), residency_(residency) {}

  // Sets the depth of a record whose edges are filled, and says whether its results, of
  // `output_bytes` in all, may have it as their producer (kNone). At the depth limit the smallest
  // value among the last kDepthWindow on the deepest chain becomes a root instead of them, if it
  // is smaller. `written`: the storage that the record makes a new version of, or nullptr.
  RootReason admit(Record& record, const Storage* written, size_t output_bytes);

  // Makes resident values whose producers are older than the limit roots.
  void cut_aged(uint64_t step);
  // The same for all resident values, whatever their age.
  void cut_all(RootReason reason);

 private:
  static constexpr size_t kDepthWindow = 32;

  template <class Wanted>
  void cut_where(Wanted&& wanted, RootReason reason);

  static uint32_t depth_of(const Record& record);
  static Value* deepest_input(const Record& record);
  bool shorten(Record& record, size_t output_bytes);

  const Limits limits_;
  LineageStore& store_;
  Residency& residency_;
};

}  // namespace tidepool::remat
