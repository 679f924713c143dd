#include "remat/plan/chain/chain_plan.h"

#include <algorithm>
#include <utility>

#include "remat/plan/chain/turn.h"

namespace tidepool::plan {
namespace {

constexpr size_t kMostTurns = 64;

// How long a storage is held if nothing is dropped.
Moment last_held(const StepValue& value) {
  return value.released == kNeverUsed ? kNeverUsed : std::max(value.released, value.made + 1) - 1;
}

// The results that wait for being read again when operator `turn` is about to run.
std::vector<Turned> results_at(const StepValues& values, Moment turn) {
  std::vector<Turned> results;
  for (size_t k = 0; k < values.size(); ++k) {
    const auto storage = static_cast<StorageIndex>(k);
    const StepValue& value = values[storage];
    if (!value.replayable || value.last_write >= turn) continue;
    const auto uses = values.uses(storage);
    const auto next = std::lower_bound(uses.begin(), uses.end(), turn);
    if (next != uses.end()) results.push_back({storage, *next, uses.back()});
  }
  return results;
}

// The operator before which most bytes of replayable results wait, as far as from operator `at` to
// there never fewer wait than at `at`; 0 if nothing waits there.
Moment turn_near(const StepValues& values, size_t operators, Moment at) {
  Held waiting(operators);
  for (size_t k = 0; k < values.size(); ++k) {
    const auto storage = static_cast<StorageIndex>(k);
    const StepValue& value = values[storage];
    const Moment last = values.last_use(storage);
    if (value.replayable && last > value.last_write) {
      waiting.add(value.last_write + 1, last, value.bytes);
    }
  }
  const std::vector<size_t> bytes = waiting.by_operator();
  if (bytes[at] == 0) return 0;
  size_t begin = at, end = at;
  while (begin > 0 && bytes[begin - 1] >= bytes[at]) --begin;
  while (end < operators && bytes[end] >= bytes[at]) ++end;
  const auto first = bytes.begin() + static_cast<ptrdiff_t>(begin);
  const auto most = std::max_element(first, bytes.begin() + static_cast<ptrdiff_t>(end));
  return static_cast<Moment>(most - bytes.begin());
}

// Of the results of a turn, those that would have a segment run again long before the rest of it is
// needed: results that are first read when far more bytes made later than they are not yet read.
std::vector<StorageIndex> early_results(const StepValues& values, std::vector<Turned> results,
                                        size_t operators) {
  constexpr size_t kFarMore = 16;
  std::sort(results.begin(), results.end(), [&](const Turned& a, const Turned& b) {
    return values[a.storage].made > values[b.storage].made;
  });
  std::vector<StorageIndex> early;
  std::vector<size_t> sums(operators + 1);  // bytes by first read: a tree of Fenwick (1994)
  for (const Turned& each : results) {
    size_t waiting = 0;  // bytes made later and read later
    const size_t bytes = values[each.storage].bytes;
    for (size_t k = operators - each.first_read; k > 0; k &= k - 1) waiting += sums[k];
    if (bytes * kFarMore < waiting) early.push_back(each.storage);
    for (size_t k = operators - each.first_read + 1; k < sums.size(); k += k & (~k + 1)) {
      sums[k] += bytes;
    }
  }
  return early;
}

// Planner: plans a trace turn by turn.
class Planner {
 public:
  explicit Planner(const Trace& trace)
      : trace_(trace),
        values_(trace),
        held_(trace.operators.size()),
        held_until_(trace.storages.size()) {
    for (size_t k = 0; k < values_.size(); ++k) {
      const StepValue& value = values_[static_cast<StorageIndex>(k)];
      held_until_[k] = last_held(value);
      // A root may begin before storages are given up that the operator before it has used.
      const Moment begin = value.root && value.made > 0 ? value.made - 1 : value.made;
      held_.add(begin, held_until_[k], value.bytes);
    }
    for (Moment at = 0; at < trace.operators.size(); ++at) {
      held_.add(at, at, trace.aligned(trace.operators[at].workspace_bytes));
    }
    plan_.dropped.resize(trace.storages.size());
  }

  ChainPlan run() {
    for (size_t turns = 0; turns < kMostTurns; ++turns) {
      const Moment at = turn_near(values_, trace_.operators.size(), peak_of(held_, replays_).at);
      if (at == 0) break;
      if (!leave_some(at)) plan_turn(at);
      values_.find_replayable();
    }
    plan_.bytes = peak_of(held_, replays_).bytes;
    std::stable_sort(plan_.reruns.begin(), plan_.reruns.end(),
                     [](const Rerun& a, const Rerun& b) { return a.before < b.before; });
    return plan_;
  }

 private:
  struct Peak {
    size_t bytes = 0;
    Moment at = 0;
  };

  // Leaves alone what is written both before and after a turn, or read too early. Returns whether
  // there is any.
  bool leave_some(Moment turn) {
    const auto early = early_results(values_, results_at(values_, turn), trace_.operators.size());
    for (const StorageIndex each : early) values_.settle(each);
    bool any = !early.empty();
    for (size_t k = 0; k < values_.size(); ++k) {
      const StepValue& value = values_[static_cast<StorageIndex>(k)];
      if (!value.replayable || value.made >= turn || value.last_write < turn) continue;
      values_.settle(static_cast<StorageIndex>(k));
      any = true;
    }
    return any;
  }

  void plan_turn(Moment at) {
    const std::vector<Turned> results = results_at(values_, at);
    Held others = held_;
    for (const Turned& each : results) {
      const size_t k = number(each.storage);
      others.add(values_[each.storage].made, held_until_[k], values_[each.storage].bytes, -1);
    }
    const Turn turn(trace_, values_, at, results, others, held_until_);
    const ChainCuts cuts = least_cuts(turn.chain());
    Schedule schedule = turn.schedule(cuts.cuts);
    others.add(schedule.held);
    schedule.replays.insert(schedule.replays.end(), replays_.begin(), replays_.end());
    Moment first = at, last = at;
    for (const Turned& each : results) {
      first = std::min(first, values_[each.storage].made);
      last = std::max(last, each.last_read);
    }
    // Other turns may have the same peak.
    const size_t before = peak_of(held_, replays_, first, last).bytes;
    if (peak_of(others, schedule.replays, first, last).bytes >= before) {
      for (const Turned& each : results) values_.settle(each.storage);
      return;
    }
    held_ = std::move(others);
    replays_ = std::move(schedule.replays);
    for (const auto& [storage, until] : schedule.kept) {
      const bool is_root = !values_[storage].replayable;
      values_.settle(storage, is_root ? kNeverUsed : until + 1);
      held_until_[number(storage)] = until;
    }
    for (const auto& [storage, until] : schedule.dropped) {
      values_.settle(storage, until + 1);
      plan_.dropped[number(storage)] = true;
    }
    plan_.replay_ns += schedule.replay_ns;
    plan_.reruns.insert(plan_.reruns.end(), schedule.reruns.begin(), schedule.reruns.end());
    plan_.places += turn.places() - 1;
    plan_.cuts += cuts.cuts.size();
    plan_.widest_cut = std::max(plan_.widest_cut, turn.widest(cuts.cuts));
    ++plan_.turns;
  }

  // The most bytes while an operator from `first` to `last` runs, or a segment runs again before
  // it.
  static Peak peak_of(const Held& held, const std::vector<Schedule::ReplayPeak>& replays,
                      Moment first = 0, Moment last = kNeverUsed) {
    const std::vector<size_t> bytes = held.by_operator();
    Peak most;
    for (Moment at = first; at < bytes.size() && at <= last; ++at) {
      if (bytes[at] > most.bytes) most = {bytes[at], at};
    }
    for (const Schedule::ReplayPeak& replay : replays) {
      if (replay.at < first || replay.at > last) continue;
      const int64_t peak = static_cast<int64_t>(bytes[replay.at]) + replay.bytes;
      if (peak > static_cast<int64_t>(most.bytes)) most = {static_cast<size_t>(peak), replay.at};
    }
    return most;
  }

  const Trace& trace_;
  StepValues values_;
  Held held_;
  std::vector<Moment> held_until_;  // by storage
  std::vector<Schedule::ReplayPeak> replays_;
  ChainPlan plan_;
};

}  // namespace

ChainPlan plan_chain(const Trace& trace) {
  return trace.operators.empty() ? ChainPlan{} : Planner(trace).run();
}

}  // namespace tidepool::plan
