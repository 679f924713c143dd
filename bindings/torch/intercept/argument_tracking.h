// Tracking of operators' tensor arguments: from a tensor to the storage that the runtime knows, and
// what that storage is to the job.
#pragma once

#include <c10/core/TensorImpl.h>

#include "bindings/torch/engine/engine.h"

namespace tidepool::torch_glue {

// Marks storages that this thread tracks first as optimizer state, while set.
extern constinit thread_local bool t_in_optimizer;

// The storage behind a tensor whose memory is of the engine's allocator. It is tracked from now on
// if it has not been, as a root; `is_new` says so. `written`: the operator is about to write it.
struct TrackedArgument {
  remat::Storage* storage = nullptr;
  bool is_new = false;
};
TrackedArgument track_argument(Engine& engine, c10::TensorImpl* tensor, bool written);

}  // namespace tidepool::torch_glue
