#include "bindings/torch/engine/engine.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/base/per_thread.h"
#include "bindings/torch/base/replaying.h"
#include "bindings/torch/engine/job_trace.h"
#include "bindings/torch/engine/work_recorder.h"
#include "bindings/torch/storage/tripwire.h"

namespace tidepool::torch_glue {

namespace detail {
constinit DeviceTable<Engine> g_engines;
std::atomic<uint64_t> g_out_of_memory_count{0};
std::atomic<int> g_captures{0};
}  // namespace detail

namespace {

bool plans(const RuntimeSettings& settings) {
  return settings.config.policy == "planned" && settings.planning != Planning::kOff &&
         settings.config.chaos == remat::Chaos::kNone;
}

remat::RuntimeConfig runtime_config(const RuntimeSettings& settings) {
  remat::RuntimeConfig config = settings.config;
  config.notices_raw_writes = tripwire::kAvailable;
  return config;
}

}  // namespace

Engine::Engine(c10::Device device, BudgetedAllocator& allocator,
               std::unique_ptr<TorchBackend> backend, const RuntimeSettings& settings,
               std::unique_ptr<remat::Tier> tier)
    : device_(device),
      chaos_at_allocations_(remat::strikes_at_allocations(settings.config.chaos)),
      allocator_(allocator),
      backend_(std::move(backend)),
      trace_recorder_(start_trace_recorder(settings.trace, device, *backend_, allocator)),
      runtime_(allocator, *backend_, runtime_config(settings), std::move(tier)),
      foreign_copies_(*this, allocator.statistics().budget_bytes),
      waits_for_plans_(settings.planning == Planning::kWait) {
  runtime_.set_recording(settings.recording);
  if (trace_recorder_ != nullptr) {
    runtime_.set_observer(trace_recorder_.get());
  } else if (settings.plans != nullptr) {
    follower_ = std::make_unique<remat::PlanFollower>(runtime_, settings.plans);
    runtime_.set_observer(follower_.get());
  } else if (plans(settings)) {
    remat::BackgroundPlannerConfig config;
    config.job.limits = settings.config.limits;
    config.facts = trace_facts(device, *backend_, allocator);
    config.foresees_at_once = waits_for_plans_;
    if (waits_for_plans_) config.search_niceness = 0;
    planner_ = std::make_unique<remat::BackgroundPlanner>(runtime_, allocator, config);
    runtime_.set_observer(planner_.get());
  }
  start_work_recorder(device, allocator, allocator_observer());
  if (device.is_cpu() && allocator_observer() != nullptr) {
    allocator.set_observer(allocator_observer());
  }
}

AllocatorObserver* Engine::allocator_observer() {
  if (WorkRecorder* recorder = work_recorder_of(device_)) return recorder;
  if (trace_recorder_ != nullptr) return &trace_recorder_->allocator_observer();
  if (follower_ != nullptr) return &follower_->allocator_observer();
  return planner_ != nullptr ? &planner_->allocator_observer() : nullptr;
}

void Engine::end_step() {
  runtime_.end_step();
  foreign_copies_.end_step();
  if (WorkRecorder* recorder = work_recorder_of(device_)) recorder->step_ended(runtime_);
  if (waits_for_plans_ && planner_ != nullptr) planner_->wait();
}

remat::BackgroundPlannerStatistics Engine::planning() const {
  remat::BackgroundPlannerStatistics statistics;
  if (planner_ != nullptr) statistics = planner_->statistics();
  if (follower_ != nullptr) statistics.plans = follower_->found();
  return statistics;
}

void Engine::find_budget_to_try(OutOfMemoryReport& report) {
  if (planner_ != nullptr) planner_->find_budget_to_try(report);
}

void Engine::finish() {
  if (WorkRecorder* recorder = work_recorder_of(device_)) recorder->finish();
  if (trace_recorder_ == nullptr && planner_ == nullptr && follower_ == nullptr) return;
  runtime_.set_observer(nullptr);
  if (trace_recorder_ != nullptr) trace_recorder_->finish();
  if (planner_ != nullptr) planner_->stop();
}

bool Engine::restore_everything() {
  DeviceLock lock(mutex());
  runtime_.pause_evicting(lock);
  runtime_.resume_evicting();
  return runtime_.has_restored();
}

void Engine::begin_settling() {
  DeviceLock lock(mutex());
  runtime_.begin_settling(lock);
}

void Engine::end_settling() {
  DeviceLock lock(mutex());
  runtime_.end_settling();
}

void Engine::begin_capture() {
  DeviceLock lock(mutex());
  if (runtime_.has_evicted()) {
    throw std::runtime_error(
        "Tidepool: another thread's work had tensors evicted when the capture of a graph began: "
        "capture while no other thread works on tensors, or within tidepool.no_eviction()");
  }
  runtime_.pause_evicting(lock);
  ++captures_;
  ++detail::g_captures;
}

void Engine::end_capture() {
  DeviceLock lock(mutex());
  --captures_;
  --detail::g_captures;
  runtime_.resume_evicting();
}

void add_engine(std::unique_ptr<Engine> engine) {
  const c10::Device device = engine->device();
  TIDEPOOL_CHECK(engine_of(device) == nullptr, "device %d has an engine already", device.index());
  g_runtimes.add(device, engine->runtime());
  detail::g_engines.add(device, *engine.release());
}

namespace {
// What the last out-of-memory error of this thread said, before it became PyTorch's.
std::optional<OutOfMemoryReport>& last_report() {
  return PerThread<std::optional<OutOfMemoryReport>>::get();
}
constinit thread_local uint64_t t_last_out_of_memory = 0;  // the count after it
}  // namespace

void note_out_of_memory(const OutOfMemoryReport& report) {
  last_report() = report;
  t_last_out_of_memory = ++detail::g_out_of_memory_count;
}

uint64_t detail::last_out_of_memory() { return t_last_out_of_memory; }

void say_inexact(const char* name) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  std::fprintf(stderr,
               "tidepool: %s was refused memory and went on without: its results may differ from "
               "those of a run with a larger budget\n",
               name);
}

void rethrow_as_torch_error(Engine& engine) {
  try {
    throw;
  } catch (const OutOfMemory& error) {
    note_out_of_memory(error.report());
    if (is_replaying()) {
      last_report().reset();  // our error has it
      throw;
    }
    OutOfMemoryReport report = error.report();
    if (WorkRecorder* recorder = work_recorder_of(engine.device())) {
      recorder->out_of_memory(report.requested_bytes);
    }
    engine.find_budget_to_try(report);
    engine.backend().raise_out_of_memory(report);
  }
  std::abort();  // not reached
}

void rethrow_as_our_error() {
  if (!last_report()) throw;
  OutOfMemoryReport report = std::move(*last_report());
  last_report().reset();
  throw OutOfMemory(std::move(report));
}

}  // namespace tidepool::torch_glue
