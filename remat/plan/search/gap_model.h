// GapModel: what a step costs if some of its results leave memory between some of their uses: a
// model of the simulator that is a hundred times as fast. A gap of a result lies between two
// operators that use it (DroppedGap of steps/step_plan.h). In each the result is kept, or it
// leaves as soon as the gap begins, or, dropped after a reader, as soon as something that is made
// again in the gap has read it. It is made again when the operator at the gap's end needs it, or
// something that has to be made again does; then it leaves again, or, dropped once, it stays.
// Bytes are fungible here, and nothing leaves but by the choices. What cannot be made again is
// there from its beginning to its end, and so is what an in-place operator has yet to write.
// Owns the model's lists. Not thread safe: evaluate() uses room of its own.
// Invariants: (1) a gap that may be chosen is of a replayable result, and at least one other
// operator lies in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "remat/plan/chain/step_values.h"
#include "remat/plan/search/energy_table.h"
#include "remat/steps/step_plan.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

enum class GapChoice : uint8_t { kKept, kDropped, kDroppedOnce, kDroppedAfter };

class GapModel {
 public:
  // Requires: a trace of one step.
  explicit GapModel(const Trace& step, const EnergyTable& energy = {});

  // A gap that may be chosen.
  struct Gap {
    uint32_t value = 0;
    uint32_t number = 0;  // among the gaps of its value, as in DroppedGap
    Moment begin = 0, end = 0;
  };
  std::span<const Gap> gaps() const { return gaps_; }

  struct Value {
    size_t bytes = 0;
    uint64_t cost_ns = 0;        // of making it again from its inputs
    uint64_t energy_nj = 0;      // of the same
    size_t temporary_bytes = 0;  // held meanwhile beside it and its inputs
    Moment made = 0;
    uint32_t result = 0;           // its number in a plan
    std::vector<uint32_t> inputs;  // values among those that it is made again from
    std::vector<Moment> uses;
    bool lives_on = false;  // after the step
  };
  std::span<const Value> values() const { return values_; }
  // By operator: the bytes that are there meanwhile whatever is chosen, its workspace among them.
  std::span<const size_t> fixed_bytes() const { return fixed_bytes_; }
  std::span<const uint64_t> costs_ns() const { return costs_ns_; }
  std::span<const uint64_t> energies_nj() const { return energies_nj_; }

  struct Outcome {
    uint64_t time_ns = 0, energy_nj = 0;
    size_t peak_bytes = 0;
    size_t excess_bytes = 0;  // above the budget, summed over all that runs
    Moment peak_at = 0;
  };
  // What the choices, one for each gap, come to. O(operators that make or use a value, and those
  // that run again).
  Outcome evaluate(std::span<const GapChoice> choices, size_t budget_bytes);
  // How many operators that makes, if none runs again.
  size_t stages() const { return stages_.size(); }

  // The reader after which the gap's value leaves: a value that is made again of it in the gap.
  // Nothing: there is none. Of the last evaluation. Requires: the gap was dropped after a reader.
  std::optional<uint32_t> reader(size_t gap) const {
    return readers_[gap] == kNone ? std::nullopt : std::optional(readers_[gap]);
  }
  // Whether something that was made again in the gap has read the gap's value. Of the last
  // evaluation.
  bool was_read(size_t gap) const { return read_[gap]; }
  // The gaps that leave as a plan has them, those after last uses among them.
  std::vector<DroppedGap> dropped(std::span<const GapChoice> choices);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // A value that an operator makes or uses, and the gap that follows: its index, or one of these.
  static constexpr uint32_t kStays = UINT32_MAX - 1, kEnds = UINT32_MAX - 2;
  struct Use {
    uint32_t value = 0;
    uint32_t gap = 0;
    bool makes = false;
  };

  // An operator that makes or uses a value, and those before it that do not, since the last that
  // did.
  struct Stage {
    Moment at = 0;
    size_t fixed_bytes = 0;               // of the operator
    size_t most_fixed_before = 0;         // of those before
    uint64_t time_ns = 0, energy_nj = 0;  // of all
    uint32_t first_use = 0, uses = 0;     // in uses_
  };

  void add_values(const Trace& step, const StepValues& known, const EnergyTable& energy);
  void add_recipes(const Trace& step);
  void add_uses(const Trace& step, const StepValues& known);
  void make_again(uint32_t value, const Stage& stage, std::span<const GapChoice> choices);
  void note(size_t bytes, Moment now);
  bool stays(uint32_t value, std::span<const GapChoice> choices) const;
  void after_reader(uint32_t value, uint32_t reader, bool made_again,
                    std::span<const GapChoice> choices);

  std::vector<Gap> gaps_;
  std::vector<Value> values_;
  std::vector<uint32_t> by_storage_;
  std::vector<size_t> fixed_bytes_;
  std::vector<uint64_t> costs_ns_, energies_nj_;
  std::vector<Stage> stages_;
  Stage rest_;  // what comes after the last
  std::vector<Use> uses_;

  // The state of an evaluation.
  Outcome outcome_;
  size_t budget_bytes_ = 0, held_bytes_ = 0;
  std::vector<bool> present_;
  std::vector<uint32_t> gap_now_;  // by value: as in Use
  std::vector<uint32_t> needs_;    // by value: how many of those being made again need it
  std::vector<uint32_t> used_at_;  // by value: the operator that uses it now, from 1
  std::vector<uint32_t> order_, stack_;
  std::vector<bool> read_;         // by gap
  std::vector<uint32_t> readers_;  // by gap: see reader(), or kNone
};

}  // namespace tidepool::remat
