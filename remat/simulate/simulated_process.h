// SimulatedProcess: one simulated process, with its memory, allocator and runtime, and the job that
// runs a trace in it, as often as asked. simulate() and the planner are made of such processes.
// Not thread safe; processes share nothing but the trace, which they only read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "remat/simulate/job/simulated_job.h"
#include "remat/simulate/simulation.h"

namespace tidepool::remat {

class SimulatedProcess {
 public:
  // Returns nullptr if the budget is smaller than one page of the memory. `trace` and `config`
  // outlive the process.
  // Throws: as check_policy().
  static std::unique_ptr<SimulatedProcess> make(const Trace& trace, const SimulationConfig& config);

  void learn(const StepHistory& step_history) { runtime_.learn(step_history); }
  void set_plan(const StepPlan& plan) {
    const DeviceLock lock(runtime_.mutex());
    runtime_.set_plan(plan);
  }
  const Runtime& runtime() const { return runtime_; }
  Runtime& runtime() { return runtime_; }
  BudgetedAllocator& allocator() { return allocator_; }
  // Does what SimulatedJob::set_log() does.
  void set_log(WorkLog* log) { job_.set_log(log); }

  // Called when a step has ended, with the number of the iteration's events that have run by then.
  using StepEnded = std::function<void(size_t events)>;

  // Runs the trace once. Returns false if it did not come to the trace's end; `result` says why.
  bool run_iteration(SimulationResult* result, const StepEnded& step_ended = {});

  // Fills in the figures of the last iteration.
  void report(SimulationResult* result);
  uint64_t compute_ns() const { return job_.counts().compute_ns - before_.job.compute_ns; }
  // How often each storage of the trace was evicted, in all iterations.
  std::span<const uint32_t> evictions() const { return job_.evictions(); }

 private:
  // Sums: figures that grow from iteration to iteration; an iteration's own are differences.
  struct Sums {
    JobCounts job;
    AllocatorStatistics allocator;
    RuntimeStatistics runtime;
    uint64_t at_ns = 0;
  };

  SimulatedProcess(const Trace& trace, const SimulationConfig& config, SimulatedMemory memory);
  void run_events(const StepEnded& step_ended);
  Sums sums() const;

  const Trace& trace_;
  const SimulationConfig& config_;
  SimulatedMemory memory_;
  DeviceMutex mutex_;
  BudgetedAllocator allocator_;
  SimulatedJob job_;
  Runtime runtime_;
  Sums before_;
};

}  // namespace tidepool::remat
