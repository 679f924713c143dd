// Foresight: when storages will be used next, if the job goes on as it did in the step before.
// Writes down what each operator of a step reads, writes and makes, with storages numbered in the
// order in which the step meets them: two steps that do the same give the same list, whatever
// addresses and objects they use. While the present step's list begins like the last one's, that
// one tells what comes; from the first difference on, nothing is foreseen until the next step.
// Owns both lists; marks storages (Storage::step_number, step_seen). Not thread safe: the device's
// lock is held. Operators of several threads that overlap in another order are a difference.
// O(1) by operand and output, 4 and 16 bytes each; a use is found in amortised constant time.
// Invariants: (1) while matching() the present list is a beginning of the last; (2) a storage has a
// number of this step if and only if an operator of it has met the storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "remat/lineage.h"

namespace tidepool::remat {

class Foresight {
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
  void give_up() { matching_ = false; }
  void end_step(uint64_t now_ns);

  // The present step has done what the last one did, so far.
  bool matching() const { return matching_; }
  // Of the storage after the calls that have begun.
  Position next_use(const Storage& storage);
  // Of operators' own time, as the last step took it; for kNever: until the end of the next step; 0
  // for what has begun. Requires: matching(), and a position of this step, or kNever.
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
  // Of the step before, in its order; how many storages it had.
  std::span<const Output> last_outputs() const { return last_.outputs; }
  uint32_t last_storages() const { return last_.numbers; }
  // Of all that the last step did, times aside: steps that did the same have the same; 0 before
  // there is one.
  uint64_t last_fingerprint() const { return last_.fingerprint; }
  // The steps from this one on up to the last one have all been the same.
  uint32_t same_since() const { return same_since_; }

  uint64_t steps_matched() const { return steps_matched_; }
  uint32_t step() const { return step_; }  // the present one's number, from 1
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
    void clear();
  };

  uint32_t number_of(Storage& storage);
  bool begins_alike() const;
  void index_uses();

  uint32_t step_ = 1;
  uint32_t same_since_ = 1;
  bool matching_ = false;
  List last_, present_;
  // Positions at which storage n of last_ is used: from uses_[first_use_[n]] on, up to that of
  // n + 1.
  std::vector<uint32_t> first_use_;
  std::vector<Position> uses_;
  std::vector<uint32_t> cursor_;  // the first use of n that has not begun, as far as was looked
  uint64_t steps_matched_ = 0;
};

}  // namespace tidepool::remat
