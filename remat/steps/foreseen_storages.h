// ForeseenStorages: which storages have which numbers in the step that is expected (StepHistory),
// also before the step has met them: if the last step was of the form of the one that is expected,
// what it met has its numbers. Where steps of several forms take turns, as those of two optimizers
// do, the numbers that living storages had in the last step of each form are kept, too. So they are
// known again when such a step is expected, also where it turns out only after the step has begun.
// Steps of one form that differ in sizes have the same numbers.
// Owns nothing; refers to living storages, which forget() takes out. Not thread safe: the device's
// lock is held. A step that is of another form than the last one takes time proportional to the
// storages that both have met; a storage's death, to the number of forms.
// Invariants: (1) an entry of known_ is nullptr or a storage that is alive and has its index as
// number; (2) all storages in forms_ are alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
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

  size_t bookkeeping_bytes() const;
  void check_invariants() const;

 private:
  // What the last step of a form has left alive.
  struct Form {
    uint64_t form = 0;
    absl::flat_hash_map<Storage*, uint32_t> numbers;
  };

  const Form* find_form(uint64_t form) const;
  // Keeps the numbers of the step that has ended.
  void keep_numbers();
  // Another step is expected than when this was called last: finds out whether what the present
  // step has not met has numbers in it.
  void expect();
  // Has what the present step has not met known by these numbers alone.
  void know_by(const Form& form);
  void forget_coming_outputs();

  const StepHistory* const history_;
  std::vector<Storage*> known_;  // by number
  uint64_t form_ = 0;            // in which those have numbers that the present step has not met
  uint32_t expectation_ = 0;     // in which these numbers hold
  uint32_t looked_ = 0;          // the expectation that expect() was called for last
  // Of the forms that have ended a step, once there were two in turn; the one that did so last is
  // last.
  std::vector<Form> forms_;
};

}  // namespace tidepool::remat
