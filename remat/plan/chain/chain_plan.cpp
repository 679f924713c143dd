#include "remat/plan/chain/chain_plan.h"

#include <algorithm>
#include <utility>

#include "remat/plan/chain/held_step.h"
#include "remat/plan/chain/turn.h"

namespace tidepool::remat {
namespace {

constexpr size_t kMostTurns = 64;

// Planner: plans a trace turn by turn.
class Planner {
 public:
  explicit Planner(const Trace& trace) : step_(trace) {
    plan_.dropped.resize(trace.storages.size());
  }

  ChainPlan run() {
    for (size_t turns = 0; turns < kMostTurns; ++turns) {
      const Moment at = step_.turn_near(peak_of(step_.held, step_.replays).at);
      if (at == 0) break;
      if (!step_.leave_some(at)) plan_turn(at);
      step_.values.find_replayable();
    }
    plan_.bytes = peak_of(step_.held, step_.replays).bytes;
    std::stable_sort(plan_.reruns.begin(), plan_.reruns.end(),
                     [](const Rerun& a, const Rerun& b) { return a.before < b.before; });
    return plan_;
  }

 private:
  void plan_turn(Moment at) {
    const std::vector<Turned> results = step_.results_at(at);
    Held others = step_.others(results);
    const Turn turn(step_.trace, step_.values, at, results, others, step_.held_until);
    const ChainCuts cuts = least_cuts(turn.chain());
    Schedule schedule = turn.schedule(cuts.cuts);
    others.add(schedule.held);
    schedule.replays.insert(schedule.replays.end(), step_.replays.begin(), step_.replays.end());
    Moment first = at, last = at;
    for (const Turned& each : results) {
      first = std::min(first, step_.values[each.storage].made);
      last = std::max(last, each.last_read);
    }
    // Other turns may have the same peak.
    const size_t before = peak_of(step_.held, step_.replays, first, last).bytes;
    if (peak_of(others, schedule.replays, first, last).bytes >= before) {
      for (const Turned& each : results) step_.values.settle(each.storage);
      return;
    }
    step_.held = std::move(others);
    step_.replays = std::move(schedule.replays);
    for (const auto& [storage, until] : schedule.kept) {
      const bool is_root = !step_.values[storage].replayable;
      step_.values.settle(storage, is_root ? kNeverUsed : until + 1);
      step_.held_until[number(storage)] = until;
    }
    for (const auto& [storage, until] : schedule.dropped) {
      step_.values.settle(storage, until + 1);
      plan_.dropped[number(storage)] = true;
    }
    plan_.replay_ns += schedule.replay_ns;
    plan_.reruns.insert(plan_.reruns.end(), schedule.reruns.begin(), schedule.reruns.end());
    plan_.places += turn.places() - 1;
    plan_.cuts += cuts.cuts.size();
    plan_.widest_cut = std::max(plan_.widest_cut, turn.widest(cuts.cuts));
    ++plan_.turns;
  }

  HeldStep step_;
  ChainPlan plan_;
};

}  // namespace

ChainPlan plan_chain(const Trace& trace) {
  return trace.operators.empty() ? ChainPlan{} : Planner(trace).run();
}

}  // namespace tidepool::remat
