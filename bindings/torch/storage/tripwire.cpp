#include "bindings/torch/storage/tripwire.h"

namespace tidepool::torch_glue::tripwire {
bool g_addresses_are_kept = false;
}

#if TIDEPOOL_TORCH_MINOR >= 13

#include <ATen/Parallel.h>

#include "bindings/torch/base/devices.h"
#include "bindings/torch/storage/storage_access.h"
#include "remat/locked_storage.h"
#include "remat/operator_call.h"

namespace tidepool::torch_glue::tripwire {

namespace {

// Whether the calling thread is one of the job's own, and not one on which an operator of another
// thread works: those have other keys.
bool works_by_itself() { return is_thread_intercepted() && !at::in_parallel_region(); }

}  // namespace

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
  const bool is_beside = tracked->locks > 0 && works_by_itself() &&
                         remat::OperatorCall::only_others_use(runtime, *tracked);
  if (tracked->locks > 0 && !is_beside) {  // an operator that we see is using it
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

}  // namespace tidepool::torch_glue::tripwire

#endif
