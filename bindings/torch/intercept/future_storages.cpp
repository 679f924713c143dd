#include "bindings/torch/intercept/future_storages.h"

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/engine/pending_collectives.h"
#include "bindings/torch/intercept/operands/argument_tracking.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch/storage/tripwire.h"

namespace tidepool::torch_glue {

using Storages = std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>;

// PyTorch's, which is private, so that C++ has no name for it here.
Storages original_find_future_storages(const c10::IValue& value) asm(
    "_ZN3c106ivalue6Future15extractStoragesERKNS_6IValueE");

namespace {

void keep(Engine& engine, c10::StorageImpl* storage) {
  DeviceLock lock(engine.mutex());
  remat::Storage* const tracked = find_tracked(engine, storage, remat::RootReason::kUntracked);
  if (tracked == nullptr || (tracked->escaped && CollectiveCall::is_running())) return;
  restore_and_hand_out(engine.runtime(), tracked, true, lock);
}

}  // namespace

Storages find_future_storages(const c10::IValue& value) {
  Storages found = original_find_future_storages(value);
  for (const auto& each : found) {
    const c10::intrusive_ptr<c10::StorageImpl> storage = each.lock();
    Engine* const engine = storage ? engine_of(storage.get()) : nullptr;
    if (engine == nullptr) continue;
    try {
      keep(*engine, storage.get());
    } catch (const OutOfMemory&) {
      rethrow_as_torch_error(*engine);
    }
  }
  return found;
}

}  // namespace tidepool::torch_glue
