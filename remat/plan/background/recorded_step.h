// RecordedStep: a step of a running job, recorded so that it can be simulated; and
// foreseen_trace(), which makes of it the trace of a step of the same form that has other sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "remat/job_observer.h"
#include "remat/record/job_events.h"
#include "remat/simulate/simulation.h"
#include "remat/steps/step_list.h"
#include "remat/steps/step_plan.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

struct RecordedStep {
  std::unique_ptr<JobEvents> events;
  // Operators' outputs as in StepHistory: their storages, or kNoStorage.
  std::vector<uint32_t> outputs;
  std::vector<uint32_t> by_number;  // the storage that has a number in StepHistory, or kNoStorage
  std::vector<uint32_t> positions;  // by operator: its place in the step, or kNoPosition
  size_t limit_bytes = 0;           // the limit on committed memory when the step began
  size_t allocated_bytes = 0;       // the bytes allocated then
  size_t resident_bytes = 0;        // those of them that belonged to storages
  uint64_t fingerprint = 0;
  bool follows_itself = false;  // the next step is expected to do the same
  TierModel tier;               // the job's
  bool offloads_roots = false;  // whether contents without lineage could go there

  // Notes what an operator has met and made. Requires: the events have it, and StepHistory, too.
  void note(const ObservedCall& call);

  // The settings with which the step is simulated, of a job's with `job` and the step's tier. A
  // budget of 0 stands for the limit.
  SimulationConfig simulated_as(SimulationConfig job) const;
  Trace trace(const TraceFacts& facts) const;
  // A plan for the step's trace as one for the job.
  StepPlan for_job(const StepPlan& plan, const Trace& trace) const;

  size_t bookkeeping_bytes() const {
    return (events ? events->bookkeeping_bytes() : 0) + bytes_of(outputs) + bytes_of(by_number) +
           bytes_of(positions);
  }

 private:
  void note_storage(const Storage& storage);
};

// The step's trace with the bytes and times of `foreseen`. Storages and operators that it does not
// tell of stay as recorded; workspaces are as much larger as what their operators read and make.
// Requires: both are of one form. Throws: TraceError if sizes or times are too large.
Trace foreseen_trace(const RecordedStep& step, const StepList& foreseen, const TraceFacts& facts);

}  // namespace tidepool::remat
