// HeldStep: what a trace holds while each of its operators runs, as far as planned, and the turns
// at which results wait for being read again. Not thread safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "remat/plan/chain/step_values.h"
#include "remat/plan/chain/turn.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

struct HeldPeak {
  size_t bytes = 0;
  Moment at = 0;
};

// The most bytes while an operator from `first` to `last` runs, or a segment runs again before it.
HeldPeak peak_of(const Held& held, std::span<const Schedule::ReplayPeak> replays, Moment first = 0,
                 Moment last = kNeverUsed);

struct HeldStep {
  // Nothing is planned yet: everything is held until it is given up. `trace` outlives the step.
  explicit HeldStep(const Trace& trace);

  // The operator before which most bytes of replayable results wait, as far as from operator `at`
  // to there never fewer wait than at `at`; 0 if nothing waits there.
  Moment turn_near(Moment at) const;
  // The last operator before which most bytes of replayable results wait; 0 if nothing ever does.
  Moment turn_of_most() const;
  // Leaves alone what is written both before and after a turn, or read too early. Returns whether
  // there is any; what is replayable is to be found again then.
  bool leave_some(Moment turn);
  // The results that wait for being read again when operator `turn` is about to run.
  std::vector<Turned> results_at(Moment turn) const;
  // What is held without these results.
  Held others(std::span<const Turned> results) const;

  const Trace& trace;
  StepValues values;
  Held held;
  std::vector<Moment> held_until;  // by storage
  std::vector<Schedule::ReplayPeak> replays;

 private:
  std::vector<size_t> waiting() const;
};

}  // namespace tidepool::remat
