// LimitKeeper: keeps lineage within limits: its depth, in-place versions, age in steps, the number
// of records alive, and the bytes of bookkeeping. Where a limit is reached, a value becomes a root
// and its bytes stay; statistics count them by reason.
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
  uint32_t age_steps = 4;     // lineage older than this many steps of the job is cut
  size_t records = 1u << 20;  // records alive at once
  // The bytes of all that is kept for lineage and residency, beside contents. A record of a few
  // operands takes about 700 bytes, with the value and the storage of its result.
  size_t bookkeeping_bytes = size_t{256} << 20;

  // No limits, for simulations and for comparisons with systems that have none.
  static constexpr Limits none() {
    return {UINT32_MAX, UINT32_MAX, UINT32_MAX, SIZE_MAX, SIZE_MAX};
  }
};

class LimitKeeper {
 public:
  LimitKeeper(const Limits& limits, Contents& contents, const Observation& observation)
      : limits_(limits), contents_(contents), observation_(observation) {}

  // The bytes that are kept now for lineage and residency.
  size_t bookkeeping_bytes() const { return lineage_bytes() + side_bytes(); }

  // Sets the depth of a record whose edges are set. Returns kNone if its results, of `output_bytes`
  // in all, may have it as their producer, and otherwise the reason why not. At the limit on depth,
  // the smallest of the last kDepthWindow values on the deepest chain becomes a root instead of the
  // results, if it is smaller. Where the limit is met again soon, because many results are made of
  // a few deep values, one of more bytes may, each time twice as many: else each of these results
  // would be a root. At the limit on bytes, the oldest resident values become roots, and
  // the results only if that does not make enough room. `written`: the storage of which the record
  // makes a new version, or nullptr.
  RootReason admit(Record& record, const Storage* written, size_t output_bytes);

  // Makes resident values roots whose producers are older than the limit, and all that optimizers
  // have made: it lives as long as the job does, and to restore it a whole step would have to run
  // again. `step`: the present one.
  void cut_aged(uint64_t step);
  // Makes all resident values roots, whatever their age.
  void cut_all(RootReason reason);

 private:
  static constexpr size_t kDepthWindow = 32;
  static constexpr uint32_t kSoon = 32;  // records
  static constexpr uint32_t kMostDoublings = 8;
  static constexpr uint32_t kChains = 4;  // that are shortened for one record at most
  // After so many records side_bytes() is asked for again.
  static constexpr uint32_t kSideInterval = 256;

  template <class Wanted>
  void cut_where(Wanted&& wanted, RootReason reason);
  template <class Wanted>
  void cut_copied_where(Wanted&& wanted, RootReason reason);

  static uint32_t depth_of(const Record& record);
  static Value* deepest_input(const Record& record);
  // Makes values roots until the record is no deeper than the limit; false: it still is.
  bool shorten_chains(Record& record, size_t output_bytes);
  // Makes the smallest value of at most so many bytes on the deepest chain a root. False: there is
  // none.
  bool shorten(Record& record, size_t most_bytes);
  size_t lineage_bytes() const {
    return contents_.store.bytes() + contents_.backend.shared_bytes();
  }
  // The bytes that are kept beside lineage itself, which grow slowly.
  size_t side_bytes() const { return contents_.side_bytes() + observation_.bookkeeping_bytes(); }
  bool has_room();
  bool make_room();

  const Limits limits_;
  Contents& contents_;
  const Observation& observation_;
  size_t side_bytes_seen_ = 0;
  uint32_t records_seen_ = 0;
  uint32_t records_shortened_ = 0;  // the last that was too deep
  uint32_t soon_shortened_ = 0;     // how many in a row came soon after each other
};

}  // namespace tidepool::remat
