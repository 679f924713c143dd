// StepHistory: foresees when storages will be used next, if the job goes on as it did in an earlier
// step. It writes down what each operator of a step reads, writes and makes, with storages numbered
// in the order in which the step meets them. So two steps that do the same give the same list,
// whatever addresses and objects they use. Jobs have several kinds of steps: two optimizers in
// turn, a few shapes, a log now and then. So the last kKinds different lists are kept, each with
// what came after it.
// The list that should come next tells what the present step will do, as long as the step begins
// like it. At a difference another list that begins like the present step takes its place. If there
// is none, because its sizes are new, a list of such sizes is foreseen from its beginning and the
// lists of steps that did the same with other sizes (Foresight), where these tell enough. If they
// do not, or the step does not go as foreseen, nothing is foreseen until the next step.
// Owns the lists; marks storages (Storage::step_number, step_seen). Not thread safe: the device's
// lock is held. If operators of several threads overlap in another order, that is a difference.
// Takes O(1) time for each operator and operand, and 4 bytes for an operand, 24 for an output. A
// use is found in amortised constant time. A difference takes a look at the beginnings of all
// lists; to foresee a step takes some 50 ns for each of its operators and operands, once.
// Invariants: (1) while matching(), the present list is a beginning of the expected one, but for
// bytes that are about as foreseen; (2) a
// storage has a number of this step if and only if an operator of this step has met it; (3) the
// lists that are kept are complete and all different.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage.h"
#include "remat/steps/foresight.h"
#include "remat/steps/step_list.h"

namespace tidepool::remat {

class StepHistory {
 public:
  // The place of an operator call in its step. kUnknown: nothing is foreseen for the storage.
  // kNever: the storage is not used any more in the rest of the step.
  using Position = uint32_t;
  static constexpr Position kNever = UINT32_MAX - 1;
  static constexpr Position kUnknown = UINT32_MAX;

  // One operator call of a step.
  struct Call {
    uint32_t step = 0;
    Position position = 0;
  };

  // Says that an operator is about to run. `site` tells apart operators on the same storages;
  // `now_ns` is the logical clock.
  Call begin(uint64_t site, std::span<Storage* const> operands, uint64_t now_ns);
  // Says that the operator has run, and made `outputs` (nullptr for memory that is not ours).
  void finish(const Call& call, std::span<Storage* const> outputs);
  // Says that the step that has begun does not come to its end.
  void give_up();
  void end_step(uint64_t now_ns);

  // How many different steps are remembered; the one that was longest ago is forgotten first.
  static constexpr size_t kKinds = 8;

  // Whether the present step has done so far what the expected one did.
  bool matching() const { return matching_; }
  // The storage's next use after the calls that have begun.
  Position next_use(const Storage& storage);
  // The uses of storage `number` of the expected step, in their order; an operator that has it
  // several times is there as often. Requires: matching().
  std::span<const Position> uses(uint32_t number) const {
    return {uses_.data() + first_use_[number], uses_.data() + first_use_[number + 1]};
  }
  // How many of these have begun. Requires: matching(), and a storage of the present step.
  size_t uses_begun(const Storage& storage);
  // How much time of operators, as the expected step took it, lies between now and the position: 0
  // if it has begun; for kNever, until the end of another such step. Requires: matching(), and a
  // position of this step or kNever.
  uint64_t time_until_ns(Position position) const;

  // How many calls of the present step have begun: the position of the next one.
  Position position() const { return static_cast<Position>(present_.entries.size()); }
  // How many calls the expected step has, and the numbers of the storages that the call at
  // `position` has. Require: matching(), and a position below the first of these.
  Position expected_calls() const { return static_cast<Position>(expected().entries.size()); }
  std::span<const uint32_t> expected_operands(Position position) const {
    const Entry& entry = expected().entries[position];
    return std::span(expected().operands).subspan(entry.first_operand, entry.operands);
  }

  using Output = StepOutput;
  // Whether no operator of the present step has begun.
  bool between_steps() const { return present_.entries.empty(); }
  // The expected step's outputs, in its order, and how many storages it has. Requires: matching().
  std::span<const Output> expected_outputs() const { return expected().outputs; }
  uint32_t expected_storages() const { return expected().numbers(); }
  // The expected step itself. Requires: matching().
  const StepList& expected_list() const { return expected(); }
  // Whether a step of the same form (StepList) follows the expected one, as far as is known.
  // Requires: matching().
  bool expects_repetition() const;
  // Whether the expected step is one of a size that is foreseen.
  bool foreseeing() const { return expected_ == kForeseen; }
  // Whether foreseeing() has begun since the last call.
  bool take_foreseen() { return std::exchange(newly_foreseen_, false); }
  const ForesightStatistics& foresight() const { return foresight_.statistics(); }
  // A fingerprint is a hash of all that a step does, without times. These are that of the last
  // step, or 0 before there is one, and that of the expected step, or 0 unless matching().
  uint64_t last_fingerprint() const { return last_fingerprint_; }
  uint64_t expected_fingerprint() const { return matching_ ? expected().fingerprint : 0; }
  // The form of the expected step, or 0 unless matching().
  uint64_t expected_form() const { return matching_ ? expected().form : 0; }
  // The fingerprint that the last step was foreseen with, if it went as foreseen; else 0. It is
  // another one than the step's own if bytes were a little off.
  uint64_t last_foreseen() const { return last_foreseen_; }
  // The form of the last step (StepList), and whether a step that is remembered had it.
  uint64_t last_form() const { return last_form_; }
  bool form_repeated() const { return form_repeated_; }
  // How many outputs the last step had.
  size_t last_outputs() const { return last_outputs_; }
  // A number that changes whenever another step is expected: with each step, and at differences.
  uint32_t expectation() const { return expectation_; }
  // Whether the last step did what one that was remembered did.
  bool repeated() const { return repeated_; }

  uint32_t step() const { return step_; }  // the present one's number, from 1
  size_t bookkeeping_bytes() const;
  void check_invariants() const;

 private:
  // A step with more operands is not written down, so that memory stays bounded.
  static constexpr size_t kMostOperands = size_t{1} << 22;

  using List = StepList;
  using Entry = StepList::Entry;
  // A list that is kept.
  struct Kind {
    List list;
    uint32_t seen = 0;   // the number of the last such step
    uint64_t next = 0;   // fingerprint of the step that comes after it; 0: unknown
    int confidence = 0;  // how often that one came, less how often another one did
  };
  static constexpr size_t kNone = SIZE_MAX;
  static constexpr size_t kForeseen = SIZE_MAX - 1;

  const List& expected() const { return foreseeing() ? foreseen_ : kinds_[expected_].list; }
  bool begins_as_expected(const List& list) const;
  uint32_t number_of(Storage& storage);
  bool begins_alike() const;
  size_t find(uint64_t fingerprint) const;
  void note_successor(uint64_t fingerprint);
  size_t remember_present();
  void expect(size_t kind);
  void expect_another();
  void try_to_foresee();
  void learn_sizes(size_t kind, bool foreseen);
  void index_uses();

  uint32_t step_ = 1;
  bool matching_ = false;
  bool repeated_ = false;
  std::vector<Kind> kinds_;
  size_t expected_ = kNone;  // among kinds_, or kForeseen; kNone unless matching_
  Foresight foresight_;
  List foreseen_;  // of the present step; it has no calls if it was not foreseen
  bool newly_foreseen_ = false;
  uint64_t last_foreseen_ = 0;
  uint64_t last_form_ = 0;
  bool form_repeated_ = false;
  uint32_t expectation_ = 0;
  uint64_t last_fingerprint_ = 0;
  size_t last_outputs_ = 0;
  List present_;
  // The positions at which storage n of the expected step is used lie in uses_, from index
  // first_use_[n] up to, but without, first_use_[n + 1].
  std::vector<uint32_t> first_use_;
  std::vector<Position> uses_;
  std::vector<uint32_t> cursor_;  // the first use of n that has not begun, as far as was looked
};

}  // namespace tidepool::remat
