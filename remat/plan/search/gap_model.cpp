#include "remat/plan/search/gap_model.h"

#include <algorithm>

#include "remat/plan/search/planner.h"

namespace tidepool::remat {

GapModel::GapModel(const Trace& step, const EnergyTable& energy)
    : by_storage_(step.storages.size(), kNone) {
  const StepValues known(step);
  add_values(step, known, energy);
  add_recipes(step);
  add_uses(step, known);
  present_.resize(values_.size());
  gap_now_.resize(values_.size());
  needs_.resize(values_.size());
  used_at_.resize(values_.size());
  read_.resize(gaps_.size());
  readers_.resize(gaps_.size());
}

void GapModel::add_values(const Trace& step, const StepValues& known, const EnergyTable& energy) {
  for (const TraceOperator& op : step.operators) {
    fixed_bytes_.push_back(op.workspace_bytes);
    costs_ns_.push_back(op.cost_ns);
    energies_nj_.push_back(energy.nanojoules(step, op));
  }
  uint32_t result = 0;
  for (const WeightedOutput& output : weighted_outputs(step)) {
    const StepValue& value = known[output.storage];
    if (value.replayable) {
      by_storage_[number(output.storage)] = static_cast<uint32_t>(values_.size());
      Value& added = values_.emplace_back();
      added.bytes = value.bytes;
      added.made = value.made;
      added.result = result;
      added.lives_on = value.released == kNeverUsed;
      const auto uses = known.uses(output.storage);
      added.uses.assign(uses.begin(), uses.end());
    }
    ++result;
  }
  for (size_t k = 0; k < known.size(); ++k) {
    if (by_storage_[k] != kNone) continue;
    const StepValue& value = known[static_cast<StorageIndex>(k)];
    const size_t end = std::min<size_t>(value.released, fixed_bytes_.size());
    for (size_t at = value.made; at < end; ++at) fixed_bytes_[at] += value.bytes;
  }
}

void GapModel::add_recipes(const Trace& step) {
  for (Moment at = 0; at < step.operators.size(); ++at) {
    const TraceOperator& op = step.operators[at];
    const auto runs_for = [&](StorageIndex storage) {
      const uint32_t own = by_storage_[number(storage)];
      if (own == kNone) return;
      Value& value = values_[own];
      size_t temporary = op.workspace_bytes;
      for (const StorageIndex other : step.outputs(op)) {
        if (other != storage) temporary += step.aligned_bytes(other);
      }
      value.cost_ns += op.cost_ns;
      value.energy_nj += energies_nj_[at];
      value.temporary_bytes = std::max(value.temporary_bytes, temporary);
      const auto reads = [&](StorageIndex input) {
        const uint32_t read = by_storage_[number(input)];
        if (read == kNone || read == own) return;
        if (std::find(value.inputs.begin(), value.inputs.end(), read) == value.inputs.end()) {
          value.inputs.push_back(read);
        }
      };
      for (const StorageIndex input : step.reads(op)) reads(input);
    };
    for (const StorageIndex output : step.outputs(op)) runs_for(output);
    for (const TraceWrite& write : step.writes(op)) runs_for(write.storage);
  }
}

void GapModel::add_uses(const Trace& step, const StepValues& known) {
  std::vector<std::vector<Use>> uses(step.operators.size());
  std::vector<StorageIndex> storages(values_.size());
  for (size_t k = 0; k < by_storage_.size(); ++k) {
    if (by_storage_[k] != kNone) storages[by_storage_[k]] = static_cast<StorageIndex>(k);
  }
  for (uint32_t v = 0; v < values_.size(); ++v) {
    const Value& value = values_[v];
    const Moment written = known[storages[v]].last_write;
    Moment begin = value.made;
    for (uint32_t k = 0; k <= value.uses.size(); ++k) {
      uint32_t gap = value.lives_on ? kStays : kEnds;
      if (k < value.uses.size()) {
        const Moment end = value.uses[k];
        gap = kStays;
        if (begin >= written && end > begin + 1) {
          gap = static_cast<uint32_t>(gaps_.size());
          gaps_.push_back({v, k, begin, end});
        }
      }
      uses[begin].push_back({v, gap, k == 0});
      if (k < value.uses.size()) begin = value.uses[k];
    }
  }
  for (Moment at = 0; at < uses.size(); ++at) {
    rest_.time_ns += costs_ns_[at];
    rest_.energy_nj += energies_nj_[at];
    if (uses[at].empty()) {
      rest_.most_fixed_before = std::max(rest_.most_fixed_before, fixed_bytes_[at]);
      continue;
    }
    rest_.at = at;
    rest_.fixed_bytes = fixed_bytes_[at];
    rest_.first_use = static_cast<uint32_t>(uses_.size());
    rest_.uses = static_cast<uint32_t>(uses[at].size());
    uses_.insert(uses_.end(), uses[at].begin(), uses[at].end());
    stages_.push_back(rest_);
    rest_ = {};
    rest_.at = at;
  }
}

void GapModel::note(size_t bytes, Moment now) {
  if (bytes > outcome_.peak_bytes) {
    outcome_.peak_bytes = bytes;
    outcome_.peak_at = now;
  }
  if (bytes > budget_bytes_) outcome_.excess_bytes += bytes - budget_bytes_;
}

// Whether what was made again for the sake of something else is there until its next use.
bool GapModel::stays(uint32_t value, std::span<const GapChoice> choices) const {
  const uint32_t gap = gap_now_[value];
  if (gap >= kEnds) return gap == kStays;
  return choices[gap] == GapChoice::kKept || choices[gap] == GapChoice::kDroppedOnce;
}

// The last of those that are made again now, and need the value, has been made.
void GapModel::after_reader(uint32_t value, uint32_t reader, bool made_again,
                            std::span<const GapChoice> choices) {
  const uint32_t gap = gap_now_[value];
  if (gap < kEnds) read_[gap] = true;
  const bool is_awaited =
      gap < kEnds && choices[gap] == GapChoice::kDroppedAfter && readers_[gap] == kNone;
  if (is_awaited) readers_[gap] = reader;
  if (!is_awaited && (!made_again || stays(value, choices))) return;
  held_bytes_ -= values_[value].bytes;
  present_[value] = false;
}

void GapModel::make_again(uint32_t wanted, const Stage& stage, std::span<const GapChoice> choices) {
  // Depth first, inputs before what is made of them. A value that waits for inputs lies on the
  // stack twice at most.
  order_.clear();
  stack_.assign(1, wanted);
  constexpr uint32_t kOpen = UINT32_MAX, kListed = UINT32_MAX - 1;
  while (!stack_.empty()) {
    const uint32_t value = stack_.back();
    if (needs_[value] == kListed) {
      stack_.pop_back();
    } else if (needs_[value] == kOpen) {
      needs_[value] = kListed;
      order_.push_back(value);
      stack_.pop_back();
    } else {
      needs_[value] = kOpen;
      for (const uint32_t input : values_[value].inputs) {
        if (!present_[input] && needs_[input] != kListed) stack_.push_back(input);
      }
    }
  }
  for (const uint32_t value : order_) needs_[value] = 0;
  for (const uint32_t value : order_) {
    for (const uint32_t input : values_[value].inputs) ++needs_[input];
  }
  for (const uint32_t value : order_) {
    const Value& made = values_[value];
    held_bytes_ += made.bytes;
    present_[value] = true;
    outcome_.time_ns += made.cost_ns;
    outcome_.energy_nj += made.energy_nj;
    note(held_bytes_ + stage.fixed_bytes + made.temporary_bytes, stage.at);
    for (const uint32_t input : made.inputs) {
      if (--needs_[input] > 0) continue;
      if (used_at_[input] == stage.at + 1) continue;
      const bool made_again = std::find(order_.begin(), order_.end(), input) != order_.end();
      after_reader(input, value, made_again, choices);
    }
  }
}

GapModel::Outcome GapModel::evaluate(std::span<const GapChoice> choices, size_t budget_bytes) {
  outcome_ = {};
  budget_bytes_ = budget_bytes;
  held_bytes_ = 0;
  std::fill(present_.begin(), present_.end(), false);
  std::fill(gap_now_.begin(), gap_now_.end(), kEnds);
  std::fill(needs_.begin(), needs_.end(), 0);
  std::fill(used_at_.begin(), used_at_.end(), 0);
  std::fill(read_.begin(), read_.end(), false);
  std::fill(readers_.begin(), readers_.end(), kNone);
  for (const Stage& stage : stages_) {
    const Moment now = stage.at;
    const std::span<const Use> uses(uses_.data() + stage.first_use, stage.uses);
    note(held_bytes_ + stage.most_fixed_before, now);
    for (const Use& use : uses) used_at_[use.value] = now + 1;
    for (const Use& use : uses) {
      if (!use.makes && !present_[use.value]) make_again(use.value, stage, choices);
    }
    for (const Use& use : uses) {
      if (!use.makes) continue;
      held_bytes_ += values_[use.value].bytes;
      present_[use.value] = true;
    }
    outcome_.time_ns += stage.time_ns;
    outcome_.energy_nj += stage.energy_nj;
    note(held_bytes_ + stage.fixed_bytes, now);
    for (const Use& use : uses) {
      gap_now_[use.value] = use.gap;
      if (use.gap == kStays) continue;
      if (use.gap != kEnds &&
          (choices[use.gap] == GapChoice::kKept || choices[use.gap] == GapChoice::kDroppedAfter)) {
        continue;
      }
      held_bytes_ -= values_[use.value].bytes;
      present_[use.value] = false;
    }
  }
  outcome_.time_ns += rest_.time_ns;
  outcome_.energy_nj += rest_.energy_nj;
  note(held_bytes_ + rest_.most_fixed_before, rest_.at);
  return outcome_;
}

std::vector<DroppedGap> GapModel::dropped(std::span<const GapChoice> choices) {
  evaluate(choices, SIZE_MAX);
  std::vector<DroppedGap> found;
  for (size_t k = 0; k < gaps_.size(); ++k) {
    if (choices[k] == GapChoice::kKept) continue;
    DroppedGap& gap = found.emplace_back();
    gap.output = values_[gaps_[k].value].result;
    gap.gap = gaps_[k].number;
    gap.stays = choices[k] == GapChoice::kDroppedOnce;
    if (choices[k] != GapChoice::kDroppedAfter) continue;
    if (const auto read_by = reader(k)) {
      gap.after = values_[*read_by].result;
    } else {
      found.pop_back();  // it is kept
    }
  }
  for (const Value& value : values_) {
    if (value.lives_on) continue;
    found.push_back({value.result, static_cast<uint32_t>(value.uses.size()), false});
  }
  return found;
}

}  // namespace tidepool::remat
