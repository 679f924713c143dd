// StepValues: what a planner asks of the storages of a trace: when each is made, used and given up,
// and which of them could be dropped in between and made again. A storage is dropped as a whole, so
// its contents are those of its last write; one that is written long after it was made is never
// dropped.
// Thread safe once made.
// Invariants: (1) all inputs of the operators that make a replayable storage are replayable, or not
// written before the storage is used for the last time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "remat/trace/trace.h"

namespace tidepool::remat {

// A moment of a trace: the number of operators that have run, or the operator that runs next.
using Moment = uint32_t;
inline constexpr Moment kNeverUsed = UINT32_MAX;

struct StepValue {
  size_t bytes = 0;              // as they are laid out
  Moment made = 0;               // the operator that makes it; 0 for a root
  Moment last_write = 0;         // the last operator that writes it, or makes it
  Moment released = kNeverUsed;  // the operator before which the job gives it up
  bool root = false;
  bool replayable = false;
};

class StepValues {
 public:
  explicit StepValues(const Trace& trace);

  const StepValue& operator[](StorageIndex index) const { return values_[number(index)]; }
  size_t size() const { return values_.size(); }
  // The operators that read or write the storage, in their order, without the one that makes it.
  std::span<const Moment> uses(StorageIndex index) const {
    return {uses_.data() + first_use_[number(index)], uses_.data() + first_use_[number(index) + 1]};
  }
  Moment last_use(StorageIndex index) const {
    const auto found = uses(index);
    return found.empty() ? (*this)[index].made : found.back();
  }

  // Says that a storage is not replayable, and cannot be had any more from operator `until` on.
  void settle(StorageIndex index, Moment until = kNeverUsed);
  // Finds out which storages are replayable, given what was settled.
  void find_replayable();

 private:
  Moment limit_of(const TraceOperator& op, Moment at) const;
  Moment unchanged_until(StorageIndex index, Moment at) const;

  const Trace& trace_;
  std::vector<StepValue> values_;
  std::vector<uint32_t> first_use_;
  std::vector<Moment> uses_;
  std::vector<std::vector<Moment>> writes_;  // by storage
  std::vector<Moment> until_;                // by storage
  std::vector<bool> settled_, refused_;
  std::vector<Moment> limit_;  // by replayable storage: until when it can be made again
};

}  // namespace tidepool::remat
