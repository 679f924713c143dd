#include "bindings/torch/storage/tripwire.h"

#include <ATen/Parallel.h>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/locked_storage.h"
#include "remat/operator_call.h"

namespace tidepool::torch_glue::tripwire {

bool g_addresses_are_kept = false;

bool is_used_by_operator(remat::Runtime& runtime, const remat::Storage& storage) {
  if (storage.locks == 0) return false;
  // Not a thread on which an operator of another thread works: those have other keys.
  const bool works_by_itself = is_thread_intercepted() && !at::in_parallel_region();
  return !works_by_itself || !remat::OperatorCall::only_others_use(runtime, storage);
}

bool is_accessible(remat::Runtime& runtime, const remat::Storage& storage, bool may_write) {
  if (storage.escaped_for_good() || (!may_write && storage.fixed)) return true;
  return !storage.evicted && is_used_by_operator(runtime, storage);
}

#if TIDEPOOL_TORCH_MINOR >= 13

void on_raw_access(c10::StorageImpl* storage) {
  // A restoration under this hook (by cut) uses storages of its own, which are not armed.
  remat::Runtime* const found = g_runtimes.of(device_of(storage));
  if (found == nullptr) return;
  remat::Runtime& runtime = *found;
  DeviceLock lock(runtime.mutex());
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (!holds_block(data)) return;
  remat::Storage* tracked = runtime.find(data.get());
  if (tracked == nullptr || tracked->framework_storage != storage) return;
  if (is_used_by_operator(runtime, *tracked)) {
    tracked->unwatched = true;
    return;
  }
  if (tracked->fixed || g_addresses_are_kept) {
    runtime.escape(tracked, lock);
    return;
  }
  const remat::LockedStorage locked(runtime, tracked);
  runtime.cut(tracked, remat::RootReason::kRawWrite, lock);
  tracked->fixed = true;
}

#endif

}  // namespace tidepool::torch_glue::tripwire
