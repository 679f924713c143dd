#include "remat/simulate/simulated_process.h"

#include <algorithm>

#include "allocator/base/sizes.h"
#include "allocator/base/steady_clock.h"
#include "allocator/space/private_host_space.h"
#include "remat/restore/restoration_error.h"
#include "remat/simulate/job/step_trace.h"

namespace tidepool::remat {
namespace {

RuntimeConfig runtime_config(const SimulationConfig& config) {
  RuntimeConfig out;
  out.policy = config.policy;
  out.limits = config.limits;
  out.prefetches = config.prefetches;
  out.offloads_roots = config.offloads_roots;
  out.step_history_at_once = config.step_history_at_once;
  return out;
}

std::unique_ptr<Tier> make_tier(const TierModel& model, SimulatedJob& job) {
  if (model.capacity_bytes == 0) return nullptr;
  auto tier = std::make_unique<SimulatedTier>(model, job.counts().compute_ns);
  job.set_tier(tier.get());
  return tier;
}

}  // namespace

std::unique_ptr<SimulatedProcess> SimulatedProcess::make(const Trace& trace,
                                                         const SimulationConfig& config) {
  const bool on_gpu = trace.facts.device == "cuda";
  size_t granularity = config.granularity;
  if (granularity == 0) granularity = on_gpu ? 2 * kMiB : PrivateHostSpace::kGranularity;
  auto memory = make_memory(config.memory, config.budget_bytes, granularity,
                            {config.evict_singly, config.partition});
  if (!memory) return nullptr;
  if (on_gpu && memory->config.placement.has_numbers()) memory->config.placement = kWithoutNumbers;
  memory->config.remap_ns_per_page = trace.facts.map_ns;
  memory->config.drain_ns = trace.facts.drain_ns;
  memory->config.search_ns_per_block = on_gpu ? 0 : kHostSearchNsPerBlock;
  restrict_to(config.ways, memory->config);
  return std::unique_ptr<SimulatedProcess>(new SimulatedProcess(trace, config, std::move(*memory)));
}

SimulatedProcess::SimulatedProcess(const Trace& trace, const SimulationConfig& config,
                                   SimulatedMemory memory)
    : trace_(trace),
      config_(config),
      memory_(std::move(memory)),
      allocator_(*memory_.space, mutex_, memory_.config),
      job_(trace, allocator_, config.budget_bytes,
           config.partition ? memory_.strategy.get() : nullptr),
      runtime_(allocator_, job_, runtime_config(config), make_tier(config.tier, job_)) {
  runtime_.set_recording(config.recompute);
  job_.set_runtime(&runtime_);
  job_.set_stop(config.stop);
  job_.set_updates_recorded(config.record_in_place);
}

SimulatedProcess::Sums SimulatedProcess::sums() const {
  return {job_.counts(), allocator_.statistics(), runtime_.statistics(), steady_now_ns()};
}

void SimulatedProcess::run_events(const StepEnded& step_ended) {
  job_.drop_results();
  job_.take_peak_bytes();
  before_ = sums();
  constexpr double kMostNs = 1e18;  // keeps sums of times far from overflow
  const double limit = config_.most_overhead * static_cast<double>(trace_.baseline_ns());
  job_.set_time_limit(static_cast<uint64_t>(std::min(limit, kMostNs)));
  bool has_steps = false;
  const size_t steps_end = last_step_end(trace_);
  for (size_t k = 0; k < trace_.events.size(); ++k) {
    // A trace's last mark does not end a step if operators come after it: they belong to the step.
    const bool is_mark = trace_.events[k].kind == EventKind::kStep;
    if (is_mark && k >= steps_end && !trace_.facts.blocks) continue;
    job_.run(trace_.events[k]);
    if (!is_mark) continue;
    has_steps = true;
    if (step_ended) step_ended(k + 1);
  }
  if (config_.end_resident) job_.restore_all();
  if (!has_steps || (steps_end < trace_.events.size() && !trace_.facts.blocks)) {
    runtime_.end_step();
    if (step_ended) step_ended(trace_.events.size());
  }
  if (!config_.check_invariants) return;
  runtime_.check_invariants();
  allocator_.check_invariants();
}

bool SimulatedProcess::run_iteration(SimulationResult* result, const StepEnded& step_ended) {
  try {
    run_events(step_ended);
    return true;
  } catch (const OutOfMemory& error) {
    result->status = SimulationStatus::kOutOfMemory;
    result->reason = error.what();
  } catch (const TimeIsUp& error) {
    result->status = SimulationStatus::kThrash;
    result->reason = error.what();
  } catch (const RestorationError& error) {
    result->status = SimulationStatus::kThrash;
    result->reason = error.what();
  }
  return false;
}

void SimulatedProcess::report(SimulationResult* result) {
  const Sums after = sums();
  result->baseline_ns = trace_.baseline_ns();
  result->compute_ns = after.job.compute_ns - before_.job.compute_ns;
  result->evictions = after.runtime.evictions - before_.runtime.evictions;
  result->evicted_bytes = after.runtime.evicted_bytes - before_.runtime.evicted_bytes;
  result->operators_replayed =
      after.runtime.operators_replayed - before_.runtime.operators_replayed;
  result->copied_bytes = after.job.copied_bytes - before_.job.copied_bytes;
  result->remapped_bytes = after.allocator.remapped_bytes - before_.allocator.remapped_bytes;
  result->stored_bytes = after.runtime.tier.stored_bytes - before_.runtime.tier.stored_bytes;
  result->exposed_ns = after.runtime.tier.load_ns + after.runtime.tier.store_ns -
                       before_.runtime.tier.load_ns - before_.runtime.tier.store_ns;
  result->exposed_out_ns = after.runtime.tier.store_ns - before_.runtime.tier.store_ns;
  result->written_behind_bytes =
      after.runtime.written_behind_bytes - before_.runtime.written_behind_bytes;
  result->write_behind_wasted_bytes =
      after.runtime.write_behind_wasted_bytes - before_.runtime.write_behind_wasted_bytes;
  result->prefetches = after.runtime.prefetches - before_.runtime.prefetches;
  result->prefetch_hits = after.runtime.prefetch_hits - before_.runtime.prefetch_hits;
  result->loaded_bytes = after.runtime.tier.loaded_bytes - before_.runtime.tier.loaded_bytes;
  result->windows = after.allocator.windows - before_.allocator.windows;
  result->remaps = after.allocator.remaps - before_.allocator.remaps;
  result->peak_bytes = job_.take_peak_bytes();
  result->reserved_peak_bytes = after.allocator.reserved_peak_bytes;
  const uint64_t tight = after.job.tight_requests - before_.job.tight_requests;
  if (tight > 0) {
    result->fragmentation = (after.job.free_share_when_tight - before_.job.free_share_when_tight) /
                            static_cast<double>(tight);
  }
  result->rematerializations =
      after.runtime.rematerializations - before_.runtime.rematerializations;
  result->ghosts = after.runtime.ghosts - before_.runtime.ghosts;
  result->foresight = after.runtime.foresight;
  result->longest_plan = after.runtime.longest_plan;
  result->plan_peak_bytes = after.runtime.plan_peak_bytes;
  result->prices = after.allocator.prices - before_.allocator.prices;
  result->search_ns = after.allocator.search_ns - before_.allocator.search_ns;
  result->planning_ns = after.runtime.bookkeeping_ns - before_.runtime.bookkeeping_ns;
  result->wall_ns = after.at_ns - before_.at_ns;
  if (result->status == SimulationStatus::kOk && result->baseline_ns > 0) {
    result->overhead =
        static_cast<double>(result->compute_ns) / static_cast<double>(result->baseline_ns);
  }
}

}  // namespace tidepool::remat
