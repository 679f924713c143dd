// RestorationPlan: the records that have to run, and the copies that have to be loaded from a tier,
// to make a set of evicted values available again, in an order in which each record finds its
// inputs. It is built once over the evicted values above these, and run by Restorer.
// Holds a reference to each record and each value to be loaded until it is done, and a use of a
// value for each time that one of its records reads it. A dead value's bytes are given up when it
// has no uses left.
// Not thread safe: the device's lock is held.
// Invariants: (1) for every record still to run, each of its edges counts one use of its value, and
// one lock unless the plan is lean; (2) destruction undoes what is left of (1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "remat/restore/contents.h"
#include "remat/restore/restoration_error.h"

namespace tidepool::remat {

class RestorationPlan {
 public:
  // kFirm locks every value that it will read, so that it cannot fail but for lack of memory.
  // kLean locks only what the record now running reads: values that were resident may be evicted
  // before their turn, and ghosts given up, and then a new plan must be made.
  enum class Mode : uint8_t { kFirm, kLean };

  // A plan may have no more records, because an error is better than hours of replays.
  static constexpr size_t kMostRecords = size_t{1} << 20;

  RestorationPlan(Contents& contents, Mode mode) : contents_(contents), mode_(mode) {}
  ~RestorationPlan();
  RestorationPlan(const RestorationPlan&) = delete;
  RestorationPlan& operator=(const RestorationPlan&) = delete;

  // Adds what is needed for `target`, which is not available. Throws: RestorationError if an input
  // has neither bytes nor producer, or the plan grows too long.
  void add(Value& target);

  // One step: a record that runs, or a value whose copy is loaded.
  struct Step {
    Record* record = nullptr;  // nullptr: a copy is loaded
    Value* loaded = nullptr;
  };

  size_t steps() const { return order_.size(); }
  // An estimate of the most bytes that the plan's values will take at once, beyond what is resident
  // now. Workspaces and outputs that nobody needs are not in it.
  size_t estimate_peak_bytes();

  // Whether anything is left to do, and what comes next.
  bool is_done() const { return done_ == order_.size(); }
  const Step& next() const { return order_[done_]; }
  // Whether all that the next step reads is available, or is in the tier still if it is a copy:
  // what a replay has made beside may have been evicted again, without one.
  bool next_is_ready() const;
  // Locks the inputs of the next record, which is about to run; unlocks them after it ran or
  // failed. Do nothing for a copy.
  void lock_next();
  void unlock_next();
  // Goes on after the next step has been done, and ends its uses.
  void finish_next();
  // Frees the bytes of a ghost that the plan has made for later steps, and that no running record
  // reads: of those that are large and read late. A later plan makes it again. False: there is
  // none, or the plan is firm.
  bool give_up_ghost();

 private:
  struct Frame {
    Record* record;
    uint32_t cursor;
  };

  // Records with more inputs are searched in order, not for the deepest input.
  static constexpr uint32_t kFewEdges = 16;

  void enter(Record& record);
  void leave(const Step& step);
  void load(Value& value);
  Value* next_input(Frame& frame) const;
  void end_use(Value& value);

  Contents& contents_;
  const Mode mode_;
  uint32_t mark_ = 0;
  std::vector<Step> order_;
  std::vector<Frame> frames_;  // not empty only while add() runs, or after it threw
  size_t done_ = 0;
};

}  // namespace tidepool::remat
