#include "bindings/torch/plugin/installation.h"

#include <pthread.h>

#include <stdexcept>

#include "bindings/torch/base/cycle_clock.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/engine/pending_collectives.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/intercept/redirected_calls.h"
#include "bindings/torch/state/thread_pool.h"
#include "bindings/torch/storage/tripwire.h"

namespace tidepool::torch_glue {
namespace {

// Whether a child might have to run something again: what could be evicted may be by then.
bool may_be_restored() {
  bool found = false;
  for_each_engine([&](Engine& engine) {
    DeviceLock lock(engine.mutex());
    found |= engine.runtime().has_lineage();
  });
  return found;
}

void before_fork() {
  if (!host_is_foreign() && may_be_restored()) end_thread_pool();
  for_each_engine([](Engine& engine) {
    engine.allocator().before_fork();
    engine.runtime().before_fork();
  });
  PendingCollectives::instance().before_fork();
}

void after_fork_in_parent() {
  PendingCollectives::instance().after_fork_in_parent();
  for_each_engine([](Engine& engine) {
    engine.runtime().after_fork_in_parent();
    engine.allocator().after_fork_in_parent();
  });
  restart_thread_pool();
}

void become_forked_child() {
  PendingCollectives::instance().become_forked_child();
  for_each_engine([](Engine& engine) {
    engine.allocator().after_fork_in_child();
    engine.runtime().become_forked_child();
  });
  restart_thread_pool();
}

}  // namespace

void install_engines(c10::DeviceType type, const RuntimeSettings& settings) {
  check_interception_is_possible();
  if (settings.raw_access && !tripwire::kAvailable) {
    throw std::runtime_error(
        "a program without Python needs PyTorch 2.13 or newer, where writes through tensors' "
        "addresses can be noticed");
  }
  tripwire::g_addresses_are_kept = settings.raw_access;
  keep_no_interpreter_waiting();
  CycleClock::calibrate();
  manage_devices(type);
  install_interception();
  redirect_calls();
  set_recording(settings.recording);
  set_thread_intercepted(true);
  pthread_atfork(&before_fork, &after_fork_in_parent, &become_forked_child);
}

}  // namespace tidepool::torch_glue
