#include "bindings/torch/engine.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "allocator/private_host_space.h"
#include "bindings/torch/cpu_allocator.h"
#include "bindings/torch/cycle_clock.h"
#include "bindings/torch/interception.h"
#include "bindings/torch/mkl_kernels.h"

namespace tidepool::torch_glue {

namespace detail {
Engine* g_engine = nullptr;
}

namespace {

remat::Chaos chaos_of(const std::string& text, uint64_t& seed) {
  if (text == "none" || text.empty()) return remat::Chaos::kNone;
  if (text == "op") return remat::Chaos::kOperator;
  if (text == "alloc") return remat::Chaos::kAllocation;
  const std::string random = "random:";
  if (text.starts_with(random)) {
    seed = std::stoull(text.substr(random.size()));
    return remat::Chaos::kRandom;
  }
  throw std::invalid_argument("chaos: '" + text + "' is not one of none, op, alloc, random:SEED");
}

}  // namespace

Settings Settings::parse(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  Settings settings;
  const std::string device = json.value("device", "cpu");
  if (device != "cpu") {
    throw std::invalid_argument("device: '" + device + "' is not supported yet, only cpu is");
  }
  settings.allocator.budget_bytes = json.at("budget_bytes").get<size_t>();
  settings.allocator.handle_bytes = json.value("handle_bytes", settings.allocator.handle_bytes);
  settings.allocator.poison = json.value("poison", false);
  settings.allocator.trace_events = json.value("trace_events", settings.allocator.trace_events);
  settings.recording = json.value("recording", true);
  remat::RuntimeConfig& runtime = settings.runtime;
  runtime.policy = json.value("policy", runtime.policy);
  runtime.chaos = chaos_of(json.value("chaos", "none"), runtime.seed);
  // So that bytes which an operator leaves alone are the same each time, and stale ones show.
  settings.allocator.poison |= runtime.chaos != remat::Chaos::kNone;
  if (json.contains("limits")) {
    const nlohmann::json& limits = json.at("limits");
    runtime.limits.depth = limits.value("depth", runtime.limits.depth);
    runtime.limits.versions = limits.value("versions", runtime.limits.versions);
    runtime.limits.age_steps = limits.value("age_steps", runtime.limits.age_steps);
    runtime.limits.records = limits.value("records", runtime.limits.records);
  }
  return settings;
}

Engine::Engine(const Settings& settings)
    : settings_(settings),
      chaos_at_allocations_(settings.runtime.chaos == remat::Chaos::kAllocation ||
                            settings.runtime.chaos == remat::Chaos::kRandom),
      space_(std::make_unique<PrivateHostSpace>()),
      allocator_(std::make_unique<BudgetedAllocator>(*space_, mutex_, settings.allocator)),
      backend_(std::make_unique<TorchBackend>(mutex_)),
      runtime_(std::make_unique<remat::Runtime>(*allocator_, *backend_, settings.runtime)) {
}

void Engine::attach(const Settings& settings) {
  if (engine() != nullptr) throw std::runtime_error("Tidepool is attached already");
  check_interception_is_possible();
  CycleClock::calibrate();
  choose_mkl_kernels();
  detail::g_engine = new Engine(settings);
  install_interception();
  CpuAllocator::install();
  set_recording(settings.recording);
  set_thread_intercepted(true);
  pthread_atfork([] { engine()->allocator().before_fork(); },
                 [] { engine()->allocator().after_fork_in_parent(); },
                 &Engine::become_forked_child);
}

void Engine::become_forked_child() {
  Engine& e = *engine();
  e.allocator().after_fork_in_child();
  e.runtime().become_forked_child();
}

namespace {
// What the last out-of-memory error of this thread said, before it became PyTorch's.
thread_local std::optional<OutOfMemoryReport> t_last_report;
}  // namespace

void rethrow_as_torch_error() {
  try {
    throw;
  } catch (const OutOfMemory& error) {
    t_last_report = error.report();
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.report().format());
    throw;  // not reached
  }
}

void rethrow_as_our_error() {
  if (!t_last_report) throw;
  OutOfMemoryReport report = std::move(*t_last_report);
  t_last_report.reset();
  throw OutOfMemory(std::move(report));
}

}  // namespace tidepool::torch_glue
