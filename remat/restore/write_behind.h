// WriteBehind: begins copies to a tier before the bytes are to leave, while the link has nothing
// else to do, so that room is there at once when it is wanted. It writes down what has left by a
// copy in each kind of step, and during which call. In the next step of this kind, or of its form
// if its size is new, it copies what will leave for some time, once nothing uses it any more until
// then, what leaves first before the others; also what left in the step of this kind before the
// last one, because where neighbouring blocks leave together, now these and now those do. Where
// that takes the link a small part of the step, what is used latest is copied, too, while the link
// is idle, until as much may leave at once as one call wanted at most: for what leaves otherwise
// than before. At the first difference from the expected step it stops.
// Owns these lists; refers to no storage. Not thread safe: the device's lock is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "remat/lineage/container_bytes.h"
#include "remat/restore/contents.h"
#include "remat/steps/foreseen_storages.h"
#include "remat/steps/step_history.h"

namespace tidepool::remat {

class WriteBehind {
 public:
  WriteBehind(Contents& contents, const ForeseenStorages& storages, const StepHistory* history)
      : contents_(contents), storages_(storages), history_(history) {}
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // The storage has left by a copy; `ahead`: one that advance() had begun.
  void left(const Storage& storage, bool ahead);
  // The history has ended a step.
  void end_step();
  // Takes over what left in the last step of each kind that another knows.
  void learn(const WriteBehind& other);
  // Begins the copies that are due. A call of the step has begun, and locked its operands.
  void advance();

  size_t bookkeeping_bytes() const;

 private:
  // A storage between two of its uses that lie far apart.
  struct Spare {
    StepHistory::Position ready;  // the use before
    StepHistory::Position until;  // the use after
    uint32_t number;
  };

  // So many departures of a step are written down, and so many are looked at for each call.
  static constexpr size_t kMostDepartures = size_t{1} << 16;
  static constexpr size_t kMostLooked = 64;
  // Copies begin so much earlier than they would have to: operators take other times than before.
  static constexpr double kSlack = 1.5;
  // A storage is copied if it is not used for so many times as long as it takes to leave and to
  // come back. Found by simulation of a GPT's step over links of 110 and 450 GB/s.
  static constexpr uint64_t kPaying = 4;
  // Uses lie far apart if it is this part of the step's time.
  static constexpr uint64_t kFarShare = 4;
  // Spares are copied if all else takes at most this part of the step's time.
  static constexpr uint64_t kIdleShare = 16;

  static constexpr StepHistory::Position kNotMade = StepHistory::kNever;

  struct Departure {
    StepHistory::Position position;  // how many calls had begun
    uint32_t number;                 // the storage's
    bool met;                        // by then the step had met it
  };
  struct Kind {
    uint64_t fingerprint, form;
    std::vector<Departure> last, before;  // of the last two such steps
  };
  // A copy that is to be begun.
  struct Wanted {
    StepHistory::Position ready;  // the last call that uses the storage before it leaves
    StepHistory::Position leaves;
    uint32_t number;
    uint32_t uses;  // how many of the storage's uses come before
  };

  // What is known of such steps as the expected one; nullptr: nothing.
  const Kind* find_kind() const;
  void expect();
  // From when on the step has the storage.
  StepHistory::Position made_at(uint32_t number) const {
    return made_[number] == kNotMade ? 0 : made_[number];
  }
  void add_wanted(const std::vector<Departure>& departures);
  void add_wanted_next(const std::vector<Departure>& departures);
  void find_spares();
  bool pays(uint32_t number, StepHistory::Position from, StepHistory::Position until) const;
  // Whether the link has time for the copy, or the copy would be late otherwise.
  bool is_due(const Wanted& wanted, uint64_t copy_ns) const;
  uint64_t backlog_ns() const;
  // Begins the copy. False: it has to wait.
  bool begin(const Wanted& wanted);
  void begin_copy(Storage& storage, uint64_t copy_ns);
  void begin_wanted();
  void begin_spares();

  Contents& contents_;
  const ForeseenStorages& storages_;
  const StepHistory* const history_;
  std::deque<Kind> kinds_;  // the one of the last step is last
  std::vector<Departure> present_;
  uint64_t present_form_ = 0;                // the form that was expected when one was written down
  std::vector<StepHistory::Position> made_;  // by number: the call that makes it, or kNotMade
  std::vector<Wanted> coming_;               // by the call that makes them ready
  size_t next_ = 0;                          // of these
  std::vector<Wanted> ready_;                // by the call during which they leave
  std::vector<Spare> coming_spares_;         // by the call that makes them ready
  size_t next_spare_ = 0;
  std::vector<Spare> spares_;  // by the use that ends them
  size_t reserve_bytes_ = 0;   // the most that left during one call
  uint32_t expectation_ = 0;   // the one that coming_ was made for
  uint64_t link_free_ns_ = 0;  // when, on the logical clock, all copies so far will be over
};

}  // namespace tidepool::remat
