// StepHistory: when storages will be used next, if the job goes on as it did in a step before.
// Writes down what each operator of a step reads, writes and makes, with storages numbered in the
// order in which the step meets them: two steps that do the same give the same list, whatever
// addresses and objects they use. Jobs have more than one kind of step: two optimizers in turn, a
// few shapes, a log now and then. So the last kKinds different lists are kept, with what came after
// each. The one that should come tells what the present step will do, as long as that begins like
// it; at a difference, another one that begins like the present step does. If there is none,
// nothing is foreseen until the next step.
// Owns the lists; marks storages (Storage::step_number, step_seen). Not thread safe: the device's
// lock is held. Operators of several threads that overlap in another order are a difference.
// O(1) by operand and output, 4 and 16 bytes each; a use is found in amortised constant time. A
// difference costs a look at the beginnings of all lists.
// Invariants: (1) while matching() the present list is a beginning of the expected one; (2) a
// storage has a number of this step if and only if an operator of it has met the storage; (3) no
// two lists kept are of the same kind of step, and all are complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage.h"

namespace tidepool::remat {

class StepHistory {
 public:
  // Place of an operator call in its step. kUnknown: nothing is foreseen for the storage; kNever:
  // it is not used any more in what is left of the step.
  using Position = uint32_t;
  static constexpr Position kNever = UINT32_MAX - 1;
  static constexpr Position kUnknown = UINT32_MAX;

  // One operator call of a step.
  struct Call {
    uint32_t step = 0;
    Position position = 0;
  };

  // An operator is about to run. `site` tells operators apart that storages alone do not; `now_ns`:
  // the logical clock.
  Call begin(uint64_t site, std::span<Storage* const> operands, uint64_t now_ns);
  // It has run, and made `outputs` (nullptr where that is no memory of ours).
  void finish(const Call& call, std::span<Storage* const> outputs);
  // What has begun does not come to its end.
  void give_up();
  void end_step(uint64_t now_ns);

  // Different steps that are remembered; those that were longest ago are forgotten first.
  static constexpr size_t kKinds = 8;

  // The present step has done what the expected one did, so far.
  bool matching() const { return matching_; }
  // Of the storage after the calls that have begun.
  Position next_use(const Storage& storage);
  // Of operators' own time, as the expected step took it; for kNever: until the end of another such
  // step; 0 for what has begun. Requires: matching(), and a position of this step, or kNever.
  uint64_t time_until_ns(Position position) const;

  // An output of a step: which operator made it, and its storage's number.
  struct Output {
    Position position = 0;
    uint32_t number = 0;
    size_t bytes = 0;
    bool operator==(const Output&) const = default;
  };
  // No operator of the present step has begun.
  bool between_steps() const { return present_.entries.empty(); }
  // Of the expected step, in its order; how many storages it has. Requires: matching().
  std::span<const Output> expected_outputs() const { return expected().outputs; }
  uint32_t expected_storages() const { return expected().numbers; }
  // Of all that a step does, times aside: steps that do the same have the same. Of the last step; 0
  // before there is one. Of the expected one; 0 unless matching().
  uint64_t last_fingerprint() const { return last_fingerprint_; }
  uint64_t expected_fingerprint() const { return matching_ ? expected().fingerprint : 0; }
  // How many outputs the last step had.
  size_t last_outputs() const { return last_outputs_; }
  // Changes with what is expected: with each step, and where another step is expected after all.
  uint32_t expectation() const { return expectation_; }
  // The last step did what one remembered did.
  bool repeated() const { return repeated_; }

  uint64_t steps_matched() const { return steps_matched_; }  // by what was expected at their end
  uint32_t step() const { return step_; }  // the present one's number, from 1
  size_t bookkeeping_bytes() const;
  void check_invariants() const;

 private:
  // A step with more operands is not written down, so that memory stays bounded.
  static constexpr size_t kMostOperands = size_t{1} << 22;

  struct Entry {
    uint64_t site = 0;
    uint64_t start_ns = 0;  // since the step's start
    uint32_t first_operand = 0;
    uint32_t operands = 0;
  };
  struct List {
    std::vector<Entry> entries;
    std::vector<uint32_t> operands;  // numbers of storages
    std::vector<Output> outputs;
    uint32_t numbers = 0;
    uint64_t start_ns = 0, length_ns = 0;
    uint64_t fingerprint = 0;
    bool complete = true;
    void mix(uint64_t word) {
      fingerprint = ((fingerprint ^ word) + 1) * 0x9E3779B97F4A7C15u;
      fingerprint ^= fingerprint >> 29;
    }
    bool begins_like(const List& other) const;
    size_t bookkeeping_bytes() const {
      return bytes_of(entries) + bytes_of(operands) + bytes_of(outputs);
    }
    size_t length() const { return entries.size() + operands.size() + outputs.size(); }
    void clear();
  };
  // A list that is kept.
  struct Kind {
    List list;
    uint32_t seen = 0;   // the last such step
    uint64_t next = 0;   // fingerprint of what comes after it; 0: unknown
    int confidence = 0;  // how often it did, less how often something else did
  };
  static constexpr size_t kNone = SIZE_MAX;

  const List& expected() const { return kinds_[expected_].list; }
  uint32_t number_of(Storage& storage);
  bool begins_alike() const;
  size_t find(uint64_t fingerprint) const;
  void note_successor(uint64_t fingerprint);
  size_t remember_present();
  void expect(size_t kind);
  void expect_another();
  void index_uses();

  uint32_t step_ = 1;
  bool matching_ = false;
  bool repeated_ = false;
  std::vector<Kind> kinds_;
  size_t expected_ = kNone;  // among kinds_; kNone unless matching_
  uint32_t expectation_ = 0;
  uint64_t last_fingerprint_ = 0;
  size_t last_outputs_ = 0;
  List present_;
  // Positions at which storage n of the expected step is used: from uses_[first_use_[n]] on, up to
  // that of n + 1.
  std::vector<uint32_t> first_use_;
  std::vector<Position> uses_;
  std::vector<uint32_t> cursor_;  // the first use of n that has not begun, as far as was looked
  uint64_t steps_matched_ = 0;
};

}  // namespace tidepool::remat
