// The functions of the C interface that are the same for every device.
#include <c10/core/StorageImpl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/base/interpreter.h"
#include "bindings/torch/base/replaying.h"
#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/intercepted_call.h"
#include "bindings/torch/intercept/interception.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/intercept/operands/region.h"
#include "bindings/torch/intercept/own_kernels.h"
#include "bindings/torch/intercept/redirected_calls.h"
#include "bindings/torch/plugin/api.h"
#include "bindings/torch/plugin/c_results.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch/storage/tripwire.h"
#include "remat/locked_storage.h"

using namespace tidepool;
using namespace tidepool::torch_glue;

namespace {

// Locks the storage behind `pointer`, restores it, and does `then` to it.
template <class Then>
int with_resident(void* pointer, bool track, char* error, size_t error_bytes, Then&& then) {
  if (!engines_installed() || pointer == nullptr) return 0;
  Engine* engine = engine_of(static_cast<c10::StorageImpl*>(pointer));
  if (engine == nullptr) return 0;
  remat::Runtime& runtime = engine->runtime();
  return report_errors(error, error_bytes, [&] {
    DeviceLock lock(engine->mutex());
    const auto reason = track ? remat::RootReason::kUntracked : remat::RootReason::kNone;
    remat::Storage* storage =
        find_tracked(*engine, static_cast<c10::StorageImpl*>(pointer), reason);
    if (storage == nullptr) return;
    const remat::LockedStorage locked(runtime, storage);
    runtime.make_resident({&storage, 1}, lock);
    then(runtime, storage, lock);
  });
}

void begin_keeping(Engine& engine) {
  DeviceLock lock(engine.mutex());
  engine.runtime().pause_evicting(lock);
}

void end_keeping(Engine& engine) {
  DeviceLock lock(engine.mutex());
  engine.runtime().resume_evicting();
}

using Begun = std::vector<Engine*>;

// Calls `end` on the engines of which begin_everywhere() has said that they have begun.
template <class End>
void end_everywhere(void* begun, End end) {
  const std::unique_ptr<Begun> engines(static_cast<Begun*>(begun));
  if (engines == nullptr) return;
  for (Engine* engine : *engines) end(*engine);
}

// Calls `begin` on each engine, and `end` on those that have begun if one cannot.
template <class Begin, class End>
int begin_everywhere(Begin begin, End end, void** begun, char* error, size_t error_bytes) {
  *begun = nullptr;
  if (!engines_installed()) return 0;
  auto engines = std::make_unique<Begun>();
  const int code = report_errors(error, error_bytes, [&] {
    for_each_engine([&](Engine& engine) {
      begin(engine);
      engines->push_back(&engine);
    });
  });
  if (code == 0) {
    *begun = engines.release();
  } else {
    end_everywhere(engines.release(), end);
  }
  return code;
}

}  // namespace

int tidepool_thread(int on) { return set_thread_intercepted(on != 0) ? 1 : 0; }
int tidepool_thread_is_on() { return is_thread_intercepted() ? 1 : 0; }

int tidepool_make_resident(void* storage, char* error, size_t error_bytes) {
  return with_resident(storage, false, error, error_bytes,
                       [](remat::Runtime&, remat::Storage*, DeviceLock&) {});
}

int tidepool_hold(void* storage, void** held, char* error, size_t error_bytes) {
  *held = nullptr;
  return with_resident(storage, false, error, error_bytes,
                       [&](remat::Runtime& runtime, remat::Storage* tracked, DeviceLock&) {
                         *held = new remat::HeldStorage(remat::LockedStorage(runtime, tracked));
                       });
}

int tidepool_hold_to_write(void* storage, void** held, char* error, size_t error_bytes) {
  *held = nullptr;
  return with_resident(storage, true, error, error_bytes,
                       [&](remat::Runtime& runtime, remat::Storage* tracked, DeviceLock& lock) {
                         remat::LockedStorage locked(runtime, tracked);
                         runtime.cut(tracked, remat::RootReason::kRawWrite, lock);
                         *held = new remat::HeldStorage(std::move(locked));
                       });
}

void tidepool_let_go(void*, void* held) { delete static_cast<remat::HeldStorage*>(held); }

int tidepool_escape(void* storage, char* error, size_t error_bytes) {
  return with_resident(storage, true, error, error_bytes,
                       [](remat::Runtime& runtime, remat::Storage* tracked, DeviceLock& lock) {
                         hand_out_address(runtime, tracked, true, lock);
                       });
}

int tidepool_written(void* storage, char* error, size_t error_bytes) {
  return with_resident(storage, true, error, error_bytes,
                       [](remat::Runtime& runtime, remat::Storage* tracked, DeviceLock& lock) {
                         hand_out_address(runtime, tracked, false, lock);
                       });
}

void tidepool_gives_up(void* pointer) {
  if (!engines_installed() || pointer == nullptr) return;
  auto* storage = static_cast<c10::StorageImpl*>(pointer);
  Engine* engine = engine_of(storage);
  if (engine == nullptr) return;
  DeviceLock lock(engine->mutex());
  remat::Storage* tracked = find_tracked(*engine, storage);
  if (tracked != nullptr) tracked->will_be_refilled = true;
}

int tidepool_state(void* pointer) {
  if (!engines_installed()) return 0;
  auto* storage = static_cast<c10::StorageImpl*>(pointer);
  Engine* engine = engine_of(storage);
  if (engine == nullptr) return -1;
  DeviceLock lock(engine->mutex());
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  const bool ours =
      is_ours(data) && (data.get() == nullptr || engine->allocator().contains(data.get()));
  if (!ours) return -1;
  const remat::Storage* tracked = find_tracked(*engine, storage);
  if (tracked == nullptr) return 0;
  if (tracked->evicted) return 3;
  if (tracked->escaped) return 4;
  return tracked->current->producer != nullptr ? 2 : 1;
}

int tidepool_evict(void* pointer) {
  auto* storage = static_cast<c10::StorageImpl*>(pointer);
  Engine* engine = engines_installed() ? engine_of(storage) : nullptr;
  if (engine == nullptr) return 0;
  DeviceLock lock(engine->mutex());
  remat::Storage* tracked = find_tracked(*engine, storage);
  return tracked != nullptr && engine->runtime().evict_storage(tracked) ? 1 : 0;
}

int tidepool_is_accessible(void* pointer, int may_write) {
  auto* storage = static_cast<c10::StorageImpl*>(pointer);
  Engine* engine = engines_installed() ? engine_of(storage) : nullptr;
  if (engine == nullptr) return 1;
  DeviceLock lock(engine->mutex());
  const remat::Storage* tracked = find_tracked(*engine, storage);
  if (tracked == nullptr) return 0;
  return tripwire::is_accessible(engine->runtime(), *tracked, may_write != 0) ? 1 : 0;
}

size_t tidepool_evict_all() {
  size_t evicted = 0;
  for_each_engine([&](Engine& engine) {
    DeviceLock lock(engine.mutex());
    evicted += engine.runtime().evict_everything();
  });
  return evicted;
}

void tidepool_optimizer_scope(int entering) {
  t_in_optimizer = entering == 1;
  if (!engines_installed() || entering != 0) return;
  for_each_engine([](Engine& engine) { engine.end_step(); });
  if (g_operators_pending.load(std::memory_order_relaxed)) rescan_operators();
}

void tidepool_set_place_source(const char* (*source)()) {
  g_place_source.store(source, std::memory_order_relaxed);
}

void tidepool_undisturbed(int what) {
  if (what == 2) return Undisturbed::become_forked_child();
  what == 1 ? Undisturbed::begin() : Undisturbed::end(true);
}

int tidepool_defer_signal(int number) { return Undisturbed::defer_signal(number) ? 1 : 0; }

int tidepool_begin_settling(void** begun, char* error, size_t error_bytes) {
  *begun = nullptr;
  if (is_replaying()) {
    return fail(kFailed, "an operator that is run again changes a switch or a kernel", error,
                error_bytes);
  }
  return begin_everywhere(std::mem_fn(&Engine::begin_settling), std::mem_fn(&Engine::end_settling),
                          begun, error, error_bytes);
}

void tidepool_end_settling(void* begun) {
  end_everywhere(begun, std::mem_fn(&Engine::end_settling));
}

int tidepool_begin_keeping(void** kept, char* error, size_t error_bytes) {
  return begin_everywhere(&begin_keeping, &end_keeping, kept, error, error_bytes);
}

void tidepool_end_keeping(void* kept) { end_everywhere(kept, &end_keeping); }

void tidepool_distrust(const char* name) {
  if (engines_installed()) distrust_operators(name);
}

void tidepool_begin_routing(const char* name, int anew) {
  const auto op = operator_named(name);
  if (op && op->hasSchema()) info_of(*op).begin_routing(anew != 0);
}

void tidepool_end_routing(const char* name) {
  const auto op = operator_named(name);
  if (op && op->hasSchema()) info_of(*op).end_routing();
}

void tidepool_judge_operators(bool (*judge)(const char* name, const char* library,
                                            bool tells_all)) {
  set_operator_judge(judge);
}

size_t tidepool_kernel_library(const char* name, char* out, size_t capacity) {
  const auto op = operator_named(name);
  return give_text(op ? kernel_library(*op) : "", out, capacity);
}

void tidepool_note_own_kernel(int of_pytorch) {
  OwnKernels::note();
  if (of_pytorch != 0) OwnKernels::note_that_they_may_draw();
}

void tidepool_note_libraries() {
  if (!engines_installed() || !redirect_calls()) return;
  for (const c10::OperatorName& name : wrap_own_kernels()) {
    distrust_operators(c10::toString(name));
  }
}

void tidepool_wrap_own_kernels() {
  if (engines_installed()) wrap_own_kernels();
}

void tidepool_note_router() { OwnKernels::note_router(); }

void tidepool_begin_own_kernel(void** begun) { *begun = new OwnKernelScope; }
void tidepool_end_own_kernel(void* begun) { delete static_cast<OwnKernelScope*>(begun); }

void tidepool_begin_region(void** begun) {
  enter_region();
  *begun = begun;
}
void tidepool_end_region(void* begun) {
  if (begun != nullptr) leave_region();
}

void tidepool_finish() {
  if (!engines_installed()) return;
  for_each_engine([](Engine& engine) { engine.finish(); });
}

void tidepool_rescan_operators() {
  if (engines_installed()) rescan_operators(true);
}

void tidepool_recording(int on) {
  if (engines_installed()) set_recording(on != 0);
}
