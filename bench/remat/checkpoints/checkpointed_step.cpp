#include "bench/remat/checkpoints/checkpointed_step.h"

#include <algorithm>
#include <utility>

#include "allocator/base/check.h"

namespace tidepool::remat {
namespace {

// Takes out what no checkpoint should touch, and returns what waits at the turn.
std::vector<Turned> results_of(HeldStep& step, Moment turn) {
  while (step.leave_some(turn)) step.values.find_replayable();
  return step.results_at(turn);
}

Turn make_turn(HeldStep& step, Moment at, Held& others) {
  std::vector<Turned> results = results_of(step, at);
  others = step.others(results);
  return {step.trace, step.values, at, std::move(results), others, step.held_until};
}

// Whether a block of the operators from `begin` to `last` frees at least as much as it keeps.
bool frees_most(const StepValues& values, const Turn& turn, Moment begin, Moment last) {
  size_t freed = 0, kept = 0;
  for (const Turned& each : turn.results()) {
    const StepValue& value = values[each.storage];
    if (value.made < begin || value.made > last) continue;
    (turn.crosses(each.storage, last) ? kept : freed) += value.bytes;
  }
  return freed >= kept;
}

}  // namespace

StepBlocks find_blocks(const Trace& trace) {
  StepBlocks blocks;
  blocks.operators = trace.operators.size();
  if (trace.operators.empty()) return blocks;
  HeldStep step(trace);
  const Moment at = step.turn_of_most();
  if (at == 0) return blocks;
  Held others(0);
  const Turn turn = make_turn(step, at, others);
  if (turn.results().empty()) return blocks;
  const Chain chain = turn.chain();
  const auto bytes = [&](size_t place) { return chain.layers[place].kept; };
  const size_t places = turn.places() - 1;  // the last one is the turn
  std::vector<uint32_t> narrow;
  Moment begin = 0;
  for (uint32_t k = 0; k < places; ++k) {
    const bool before = k == 0 || bytes(k - 1) >= bytes(k);
    const bool behind = k + 1 == places || bytes(k + 1) >= bytes(k);
    if (!before || !behind || !frees_most(step.values, turn, begin, turn.place(k))) continue;
    narrow.push_back(k);
    begin = turn.place(k) + 1;
  }
  // Of too many, those of fewest bytes in as many equal parts.
  const size_t part = narrow.size() / kMostBlocks + 1;
  for (size_t k = 0; k < narrow.size(); k += part) {
    const auto first = narrow.begin() + static_cast<ptrdiff_t>(k);
    const auto end = first + static_cast<ptrdiff_t>(std::min(part, narrow.size() - k));
    const auto least =
        std::min_element(first, end, [&](uint32_t a, uint32_t b) { return bytes(a) < bytes(b); });
    blocks.ends.push_back(turn.place(*least) + 1);
  }
  blocks.ends.push_back(at);
  return blocks;
}

CheckpointedStep::CheckpointedStep(const Trace& step, StepBlocks blocks)
    : blocks_(std::move(blocks)), step_(step), saved_bytes_(blocks_.ends.size()) {
  TIDEPOOL_CHECK(step.operators.size() == blocks_.operators, "%zu operators, and blocks of %zu",
                 step.operators.size(), blocks_.operators);
  if (blocks_.ends.empty()) return;
  others_.emplace(0);
  turn_.emplace(make_turn(step_, blocks_.ends.back(), *others_));
  for (const Turned& each : turn_->results()) {
    const Moment made = step_.values[each.storage].made;
    const auto end = std::upper_bound(blocks_.ends.begin(), blocks_.ends.end(), made);
    if (turn_->crosses(each.storage, *end - 1)) continue;
    saved_bytes_[static_cast<size_t>(end - blocks_.ends.begin())] +=
        step_.values[each.storage].bytes;
  }
}

Schedule CheckpointedStep::schedule(const CheckpointedBlocks& blocks) const {
  std::vector<Segment> segments;
  for (size_t k = 0; k < blocks_.ends.size(); ++k) {
    segments.push_back({blocks_.ends[k], blocks[k]});
  }
  return turn_->schedule_of(segments);
}

CheckpointedCost CheckpointedStep::cost(const CheckpointedBlocks& blocks) const {
  TIDEPOOL_CHECK(blocks.size() == blocks_.ends.size(), "%zu blocks of %zu", blocks.size(),
                 blocks_.ends.size());
  if (!turn_) return {peak_of(step_.held, {}).bytes, 0};
  const Schedule schedule = this->schedule(blocks);
  Held held = *others_;
  held.add(schedule.held);
  return {peak_of(held, schedule.replays).bytes, schedule.replay_ns};
}

CheckpointedCost CheckpointedStep::measuring_cost() const {
  CheckpointedCost cost = this->cost(CheckpointedBlocks(blocks_.ends.size(), true));
  if (!turn_) return cost;
  for (Moment at = 0; at < turn_->at(); ++at) cost.replay_ns += step_.trace.operators[at].cost_ns;
  return cost;
}

}  // namespace tidepool::remat
