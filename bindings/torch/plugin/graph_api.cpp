// The functions of the C interface for compiled graphs, which reach memory beside the dispatcher.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bindings/torch/calls/operator_info.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/plugin/api.h"
#include "bindings/torch/plugin/c_results.h"
#include "remat/locked_storage.h"

using namespace tidepool;
using namespace tidepool::torch_glue;

namespace {

// Locks those of the storages that the engine tracks, restores them, and adds the locks to `held`.
void hold_on(Engine& engine, std::span<void* const> storages,
             std::vector<remat::HeldStorage>& held) {
  remat::Runtime& runtime = engine.runtime();
  std::vector<remat::Storage*> tracked;
  DeviceLock lock(engine.mutex());
  std::vector<remat::LockedStorage> locked;
  for (void* pointer : storages) {
    auto* storage = static_cast<c10::StorageImpl*>(pointer);
    if (storage == nullptr || engine_of(storage) != &engine) continue;
    remat::Storage* found = find_tracked(engine, storage);
    if (found == nullptr) continue;
    locked.emplace_back(runtime, found);
    tracked.push_back(found);
  }
  runtime.make_resident(tracked, lock);
  for (remat::LockedStorage& each : locked) held.emplace_back(std::move(each));
}

}  // namespace

const void* tidepool_known_operator(const char* name) {
  const std::string whole = name;
  const size_t dot = whole.find('.');
  const auto op = c10::Dispatcher::singleton().findOp(
      {whole.substr(0, dot), dot == std::string::npos ? "" : whole.substr(dot + 1)});
  if (!op || !op->hasSchema()) return nullptr;
  const OperatorInfo& info = info_of(*op);
  bool hides_writes = false;
  for (const TensorArgument& argument : info.tensors) hides_writes |= argument.side_writes;
  // What varies by switches of PyTorch's does so depending on what they are at each call.
  const bool draws = info.draws && info.draw_argument < 0;
  const bool known = info.is_trusted() && info.replayable && !draws && !hides_writes &&
                     !info.is_metadata && info.varies != Variation::kPlaces;
  return known ? &info : nullptr;
}

int tidepool_are_as_known(const void* const* operators, size_t count) {
  for (const void* each : std::span(operators, count)) {
    const auto& info = *static_cast<const OperatorInfo*>(each);
    const bool by_switch =
        info.varies == Variation::kAlgorithms || info.varies == Variation::kConvolution;
    if (!info.is_trusted() || (by_switch && may_vary(info.varies))) return 0;
  }
  return 1;
}

int tidepool_hold_all(void* const* storages, size_t count, void** held, char* error,
                      size_t error_bytes) {
  *held = nullptr;
  if (!engines_installed()) return 0;
  auto locks = std::make_unique<std::vector<remat::HeldStorage>>();
  return report_errors(error, error_bytes, [&] {
    for_each_engine([&](Engine& engine) { hold_on(engine, {storages, count}, *locks); });
    *held = locks.release();
  });
}

void tidepool_let_all_go(void* held) { delete static_cast<std::vector<remat::HeldStorage>*>(held); }

void tidepool_made_by_graph(void* const* storages, size_t count) {
  if (!engines_installed()) return;
  for (void* pointer : std::span(storages, count)) {
    auto* storage = static_cast<c10::StorageImpl*>(pointer);
    Engine* engine = storage != nullptr ? engine_of(storage) : nullptr;
    if (engine == nullptr) continue;
    DeviceLock lock(engine->mutex());
    find_tracked(*engine, storage, remat::RootReason::kCompiled);
  }
}
