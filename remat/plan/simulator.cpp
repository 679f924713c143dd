#include "remat/plan/simulator.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "allocator/sizes.h"
#include "remat/plan/fallback.h"
#include "remat/plan/simulated_job.h"
#include "remat/plan/trace_peak.h"
#include "remat/policy.h"
#include "remat/restoration_error.h"
#include "remat/runtime.h"

namespace tidepool::plan {
namespace {

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// What grows from iteration to iteration.
struct Sums {
  JobCounts job;
  AllocatorStatistics allocator;
  remat::RuntimeStatistics runtime;
  uint64_t at_ns = 0;
};

// Everything that one process would have.
class Process {
 public:
  Process(const Trace& trace, const SimulationConfig& config, SimulatedMemory memory)
      : trace_(trace),
        config_(config),
        memory_(std::move(memory)),
        allocator_(*memory_.space, mutex_, memory_.config),
        job_(trace, allocator_, config.budget_bytes, config.partition),
        runtime_(allocator_, job_, runtime_config(config)) {
    job_.set_runtime(&runtime_);
  }

  void learn_from(const Process& other) { runtime_.learn_from(other.runtime_); }

  // Runs the trace once. Throws as SimulatedJob::run().
  void run_iteration() {
    job_.drop_results();
    job_.take_peak_bytes();
    before_ = sums();
    constexpr double kMostNs = 1e18;  // sums stay far from overflow
    const double limit = config_.most_overhead * static_cast<double>(trace_.baseline_ns());
    job_.set_time_limit(static_cast<uint64_t>(std::min(limit, kMostNs)));
    bool has_steps = false;
    for (const TraceEvent& event : trace_.events) {
      job_.run(event);
      has_steps |= event.kind == EventKind::kStep;
    }
    if (config_.end_resident) job_.restore_all();
    if (!has_steps) runtime_.end_step();
    if (!config_.check_invariants) return;
    runtime_.check_invariants();
    allocator_.check_invariants();
  }

  void report(SimulationResult* result) {
    const Sums after = sums();
    result->baseline_ns = trace_.baseline_ns();
    result->compute_ns = after.job.compute_ns - before_.job.compute_ns;
    result->evictions = after.runtime.evictions - before_.runtime.evictions;
    result->evicted_bytes = after.runtime.evicted_bytes - before_.runtime.evicted_bytes;
    result->operators_replayed =
        after.runtime.operators_replayed - before_.runtime.operators_replayed;
    result->copied_bytes = after.job.copied_bytes - before_.job.copied_bytes;
    result->remapped_bytes = after.allocator.remapped_bytes - before_.allocator.remapped_bytes;
    result->windows = after.allocator.windows - before_.allocator.windows;
    result->remaps = after.allocator.remaps - before_.allocator.remaps;
    result->peak_bytes = job_.take_peak_bytes();
    result->reserved_peak_bytes = after.allocator.reserved_peak_bytes;
    const uint64_t tight = after.job.tight_requests - before_.job.tight_requests;
    if (tight > 0) {
      result->fragmentation =
          (after.job.free_share_when_tight - before_.job.free_share_when_tight) /
          static_cast<double>(tight);
    }
    result->rematerializations =
        after.runtime.rematerializations - before_.runtime.rematerializations;
    result->ghosts = after.runtime.ghosts - before_.runtime.ghosts;
    result->longest_plan = after.runtime.longest_plan;
    result->plan_peak_bytes = after.runtime.plan_peak_bytes;
    result->search_ns = after.allocator.search_ns - before_.allocator.search_ns;
    result->planning_ns = after.runtime.bookkeeping_ns - before_.runtime.bookkeeping_ns;
    result->wall_ns = after.at_ns - before_.at_ns;
  }

 private:
  static remat::RuntimeConfig runtime_config(const SimulationConfig& config) {
    remat::RuntimeConfig out;
    out.policy = config.policy;
    out.limits = config.limits;
    out.record_in_place = config.record_in_place;
    return out;
  }

  Sums sums() const {
    return {job_.counts(), allocator_.statistics(), runtime_.statistics(), now_ns()};
  }

  const Trace& trace_;
  const SimulationConfig& config_;
  SimulatedMemory memory_;
  DeviceMutex mutex_;
  BudgetedAllocator allocator_;
  SimulatedJob job_;
  remat::Runtime runtime_;
  Sums before_;
};

// True if the iteration ran to its end.
bool attempt(Process& process, SimulationResult* result) {
  try {
    process.run_iteration();
    return true;
  } catch (const OutOfMemory& error) {
    result->status = SimulationStatus::kOutOfMemory;
    result->reason = error.what();
  } catch (const TimeIsUp& error) {
    result->status = SimulationStatus::kThrash;
    result->reason = error.what();
  } catch (const remat::RestorationError& error) {
    result->status = SimulationStatus::kThrash;
    result->reason = error.what();
  }
  return false;
}

std::unique_ptr<Process> make_process(const Trace& trace, const SimulationConfig& config) {
  size_t granularity = config.granularity;
  if (granularity == 0 && trace.facts.device == "cuda") granularity = 2 * kMiB;
  auto memory = make_memory(config.memory, config.budget_bytes, granularity);
  if (memory) memory->config.remap_ns_per_handle = trace.facts.map_ns;
  if (!memory) return nullptr;
  memory->config.evict_singly = config.evict_singly;
  return std::make_unique<Process>(trace, config, std::move(*memory));
}

// A process that has not begun, and knows the trace.
std::unique_ptr<Process> make_informed(const Trace& trace, const SimulationConfig& config) {
  SimulationConfig ample = config;
  ample.memory = MemoryModel::kExact;
  ample.budget_bytes = trace_peak(trace).peak_bytes;
  const std::unique_ptr<Process> teacher = make_process(trace, ample);
  teacher->run_iteration();
  std::unique_ptr<Process> process = make_process(trace, config);
  process->learn_from(*teacher);
  return process;
}

// Runs all iterations under the budget, and scores the last.
SimulationResult run_all(const Trace& trace, const SimulationConfig& config) {
  SimulationResult result;
  result.limit_bytes = config.budget_bytes;
  std::unique_ptr<Process> process = make_process(trace, config);
  if (process == nullptr) {
    result.status = SimulationStatus::kOutOfMemory;
    result.reason = "the budget is less than one handle of the memory";
    result.iteration = config.iterations;
    return result;
  }
  for (result.iteration = 1;; ++result.iteration) {
    result.status = SimulationStatus::kOk;
    result.reason.clear();
    const bool done = attempt(*process, &result);
    if (result.iteration == config.iterations) break;
    // A job that failed starts over, but for what a whole iteration would have taught it.
    if (!done) process = make_informed(trace, config);
  }
  process->report(&result);
  if (result.status == SimulationStatus::kOk && result.baseline_ns > 0) {
    result.overhead =
        static_cast<double>(result.compute_ns) / static_cast<double>(result.baseline_ns);
  }
  return result;
}

}  // namespace

const char* name_of(SimulationStatus status) {
  constexpr const char* kNames[] = {"ok", "out_of_memory", "thrash"};
  return kNames[static_cast<size_t>(status)];
}

void check_policy(const std::string& name) {
  struct Deaf final : remat::LineageStore::Observer {
    void value_dies(remat::Value&) override {}
  } observer;
  remat::LineageStore store(observer);
  remat::make_policy(name, store);
}

SimulationResult simulate(const Trace& trace, const SimulationConfig& config) {
  if (!config.fallback || config.iterations < 2) return run_all(trace, config);
  return with_fallback(trace, config.budget_bytes, [&](size_t limit_bytes) {
    SimulationConfig limited = config;
    limited.budget_bytes = limit_bytes;
    return run_all(trace, limited);
  });
}

}  // namespace tidepool::plan
