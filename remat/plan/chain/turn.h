// Turn: a moment of a trace at which results wait for being read again, as at the end of a forward
// pass, and the ways to cut what came before it into segments that run again. What is held is
// counted operator by operator.
// Not thread safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "remat/plan/chain/chain.h"
#include "remat/plan/chain/step_values.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// Held: bytes that are held while each operator runs.
class Held {
 public:
  explicit Held(size_t operators) : change_(operators + 1) {}

  // From when operator `first` runs to when operator `last` has run.
  void add(Moment first, Moment last, size_t bytes, int sign = 1) {
    if (first + size_t{1} >= change_.size() || first > last) return;
    const auto last_at = std::min<size_t>(last, change_.size() - 2);
    change_[first] += sign * static_cast<int64_t>(bytes);
    change_[last_at + 1] -= sign * static_cast<int64_t>(bytes);
  }
  void add(const Held& other) {
    for (size_t k = 0; k < change_.size(); ++k) change_[k] += other.change_[k];
  }
  std::vector<size_t> by_operator() const {
    std::vector<size_t> bytes(change_.size() - 1);
    int64_t sum = 0;
    for (size_t k = 0; k < bytes.size(); ++k) {
      sum += change_[k];
      bytes[k] = static_cast<size_t>(sum);
    }
    return bytes;
  }

 private:
  std::vector<int64_t> change_;
};

// Turned: a result that is made before the turn and read after it.
struct Turned {
  StorageIndex storage{};
  Moment first_read = 0;  // after the turn
  Moment last_read = 0;
};

// Rerun: operator `op` runs again before operator `before` runs.
struct Rerun {
  Moment before = 0, op = 0;
};

// Segment: operators of the forward pass, from the end of the segment before it.
struct Segment {
  Moment end = 0;          // the operator behind its last one
  bool runs_again = true;  // if not, all its results are kept
};

// Schedule: what becomes of the results of one turn.
struct Schedule {
  explicit Schedule(size_t operators) : held(operators) {}

  // ReplayPeak: the most bytes that a segment takes while it runs again before operator `at`,
  // beyond those that are held when that operator has begun.
  struct ReplayPeak {
    Moment at = 0;
    int64_t bytes = 0;
  };

  Held held;  // by them, and longer by what is needed to make them again
  std::vector<ReplayPeak> replays;
  std::vector<Rerun> reruns;
  uint64_t replay_ns = 0;
  // Storages, and the last operator for which they are there.
  std::vector<std::pair<StorageIndex, Moment>> kept, dropped;
};

// Turn: the results that are made before an operator and read after it, and how they could be cut
// into segments.
class Turn {
 public:
  // `others`: what is held without the results; `held_until`: until when storages are, by storage.
  Turn(const Trace& trace, const StepValues& values, Moment turn, std::vector<Turned> results,
       const Held& others, const std::vector<Moment>& held_until)
      : trace_(trace),
        values_(values),
        held_until_(held_until),
        turn_(turn),
        results_(std::move(results)),
        others_(others.by_operator()),
        result_of_(trace.storages.size(), kNone) {
    for (uint32_t k = 0; k < results_.size(); ++k) result_of_[number(results_[k].storage)] = k;
    find_forward();
    find_places();
  }

  // The places where it may be cut; behind the last of them lies the turn.
  size_t places() const { return places_.size(); }
  // The operator behind which place `index` lies.
  Moment place(uint32_t index) const { return places_[index]; }
  Moment at() const { return turn_; }
  std::span<const Turned> results() const { return results_; }
  // How many storages lie at the widest of these cuts.
  size_t widest(std::span<const uint32_t> cuts) const {
    size_t most = 0;
    for (const uint32_t cut : cuts) {
      size_t count = 0;
      for (const StorageIndex each : forward_) count += crosses(each, places_[cut]);
      most = std::max(most, count);
    }
    return most;
  }
  Chain chain() const;
  // Cut at these places, where all segments but the last run again.
  Schedule schedule(std::span<const uint32_t> cuts) const;
  // Requires: ends ascend, the last one is the turn, and nothing is written across an end.
  Schedule schedule_of(std::span<const Segment> segments) const;
  // Whether an operator of the forward pass behind operator `place` reads what was made before.
  bool crosses(StorageIndex storage, Moment place) const {
    return values_[storage].made <= place && last_forward_use(storage) > place;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Replay;

  bool is_forward(StorageIndex storage) const {
    return values_[storage].replayable && values_[storage].last_write < turn_;
  }
  Moment last_forward_use(StorageIndex storage) const {
    const auto uses = values_.uses(storage);
    const auto end = std::lower_bound(uses.begin(), uses.end(), turn_);
    return end == uses.begin() ? values_[storage].made : *(end - 1);
  }
  size_t new_bytes(const TraceOperator& op) const {
    size_t bytes = trace_.aligned(op.workspace_bytes);
    for (const StorageIndex output : trace_.outputs(op)) bytes += trace_.aligned_bytes(output);
    return bytes;
  }
  size_t others_before(Moment at) const {
    return others_[at] - std::min(others_[at], new_bytes(trace_.operators[at]));
  }
  void find_forward();
  void find_places();
  std::vector<uint32_t> blocks() const;
  void add_forward(Chain& chain, const std::vector<uint32_t>& block) const;
  void add_again(Chain& chain, const std::vector<uint32_t>& block) const;
  void add_backward(Chain& chain, const std::vector<uint32_t>& block) const;
  void replay(Replay& segment, std::vector<Moment>& needed_until) const;
  void add_replays(std::span<const Replay> segments, Schedule& schedule) const;

  const Trace& trace_;
  const StepValues& values_;
  const std::vector<Moment>& held_until_;
  const Moment turn_;
  Moment first_ = turn_;  // the operator that makes the first of the results
  const std::vector<Turned> results_;
  const std::vector<size_t> others_;
  std::vector<uint32_t> result_of_;    // by storage: its index among the results
  std::vector<StorageIndex> forward_;  // replayable storages that are made before the turn
  std::vector<Moment> places_;         // the operators behind which cuts may lie, then the last one
};

}  // namespace tidepool::remat
