// track_argument(): leads from a tensor argument to the storage that the runtime knows, and says
// what that storage is to the job. find_tracked(): the same for a bare storage of any kind.
#pragma once

#include <c10/core/TensorImpl.h>

#include "bindings/torch/engine/engine.h"

namespace tidepool::torch_glue {

// While this is set, storages that this thread tracks first are optimizer state.
extern constinit thread_local bool t_in_optimizer;

// Returns the storage behind a tensor whose memory is the engine's allocator's. If it has not been
// tracked, it is tracked from now on, as a root, and `is_new` says so. `written`: the operator is
// about to write it.
struct TrackedArgument {
  remat::Storage* storage = nullptr;
  bool is_new = false;
};
TrackedArgument track_argument(Engine& engine, c10::TensorImpl* tensor, bool written);

// Returns the tracked storage behind a StorageImpl; nullptr if that is foreign, empty, or not yet
// tracked. With a reason it is tracked from now on, as a root for that reason. Requires: the
// device's lock is held.
remat::Storage* find_tracked(Engine& engine, c10::StorageImpl* storage,
                             remat::RootReason reason = remat::RootReason::kNone);

}  // namespace tidepool::torch_glue
