#include "bindings/torch/engine.h"

#include <c10/util/Exception.h>
#include <pthread.h>

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
