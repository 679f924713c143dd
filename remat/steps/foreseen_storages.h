// ForeseenStorages: which storages have which numbers in the step that is expected (StepHistory),
// also before the step has met them: if the step that is expected is like the one before it,
// storages that the last step found have its numbers.
// Owns nothing; refers to living storages, which forget() takes out. Not thread safe: the device's
// lock is held.
// Invariant: an entry of known_ is nullptr or a storage that is alive and has its index as number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage.h"
#include "remat/steps/step_history.h"

namespace tidepool::remat {

class ForeseenStorages {
 public:
  // `history`: nullptr: nothing is foreseen.
  explicit ForeseenStorages(const StepHistory* history) : history_(history) {}
  ForeseenStorages(const ForeseenStorages&) = delete;
  ForeseenStorages& operator=(const ForeseenStorages&) = delete;

  // Whether there is a history. If not, nothing else but time_until_use_ns() needs to be called.
  bool enabled() const { return history_ != nullptr; }

  // Say which storages the history is about to meet, and which it has met.
  void before_meeting(std::span<Storage* const> storages);
  void after_meeting(std::span<Storage* const> storages);
  // The storage dies.
  void forget(Storage& storage);
  // The history has ended a step.
  void end_step();

  // The storage with the number; nullptr: none is known.
  Storage* find(uint32_t number) const {
    Storage* const storage = number < known_.size() ? known_[number] : nullptr;
    return storage != nullptr && is_known(*storage) ? storage : nullptr;
  }
  // Whether the storage has a number, which is its step_number.
  bool is_known(const Storage& storage) const;
  // Whether it has one because the present step has met it.
  bool is_met(const Storage& storage) const { return storage.step_seen == history_->step(); }
  // The storage's first use after the calls that have begun; StepHistory::kUnknown: nothing is
  // foreseen for it.
  StepHistory::Position next_use(const Storage& storage) const;

  // How much time of operators lies before the storage's next use, in this step or, if the next one
  // is another such step, in that; 0: nothing is foreseen for it.
  uint64_t time_until_use_ns(const Storage& storage) const;

  size_t bookkeeping_bytes() const { return bytes_of(known_); }
  void check_invariants() const;

 private:
  const StepHistory* const history_;
  std::vector<Storage*> known_;  // by number
  uint32_t expectation_ = 0;     // in which numbers of the step before hold
};

}  // namespace tidepool::remat
