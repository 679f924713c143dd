// LimitKeeper: keeps lineage bounded: depth, in-place versions, age in steps, records alive, bytes
// of bookkeeping. Where a limit is hit, a value becomes a root and its bytes stay (reported by
// reason).
// Not thread safe: the device's lock is held.
// Invariants: (1) no value that passed admit() is deeper than Limits::depth; (2) no record that
// passed it has brought the bytes of bookkeeping above their limit, as far as side bytes were
// known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "remat/observation.h"
#include "remat/restore/contents.h"

namespace tidepool::remat {

struct Limits {
  uint32_t depth = 128;
  uint32_t versions = 32;
  uint32_t age_steps = 4;       // lineage older than this many steps of the job is cut
  size_t records = 1u << 20;    // records alive at once
  // All that is kept in memory for lineage and residency, beside contents. A record of a few
  // operands takes about 700 bytes with its result's value and storage.
  size_t bookkeeping_bytes = size_t{256} << 20;

  // Lineage grows for ever: for simulations, and comparison with systems that have no limits.
  static constexpr Limits none() {
    return {UINT32_MAX, UINT32_MAX, UINT32_MAX, SIZE_MAX, SIZE_MAX};
  }
};

class LimitKeeper {
 public:
  LimitKeeper(const Limits& limits, Contents& contents, const Observation& observation)
      : limits_(limits), contents_(contents), observation_(observation) {}

  // What is kept now.
  size_t bookkeeping_bytes() const { return lineage_bytes() + side_bytes(); }

  // Sets the depth of a record whose edges are filled, and says whether its results, of
  // `output_bytes` in all, may have it as their producer (kNone). At the depth limit the smallest
  // value among the last kDepthWindow on the deepest chain becomes a root instead of them, if it
  // is smaller. At the limit of bytes the oldest resident values become roots, and the results only
  // if that does not make room enough. `written`: the storage that the record makes a new version
  // of, or nullptr.
  RootReason admit(Record& record, const Storage* written, size_t output_bytes);

  // Makes resident values whose producers are older than the limit roots.
  void cut_aged(uint64_t step);
  // The same for all resident values, whatever their age.
  void cut_all(RootReason reason);

 private:
  static constexpr size_t kDepthWindow = 32;
  // Records between two looks at side_bytes().
  static constexpr uint32_t kSideInterval = 256;

  template <class Wanted>
  void cut_where(Wanted&& wanted, RootReason reason);

  static uint32_t depth_of(const Record& record);
  static Value* deepest_input(const Record& record);
  bool shorten(Record& record, size_t output_bytes);
  size_t lineage_bytes() const {
    return contents_.store.bytes() + contents_.backend.shared_bytes();
  }
  // What is kept beside lineage itself, and grows slowly.
  size_t side_bytes() const { return contents_.side_bytes() + observation_.bookkeeping_bytes(); }
  bool has_room();
  bool make_room();

  const Limits limits_;
  Contents& contents_;
  const Observation& observation_;
  size_t side_bytes_seen_ = 0;
  uint32_t records_seen_ = 0;
};

}  // namespace tidepool::remat
