// track_argument(): leads from a tensor argument to the storage that the runtime knows, and says
// what that storage is to the job. find_tracked(): the same for a bare storage of any kind.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <span>
#include <vector>

#include "bindings/torch/engine/engine.h"
#include "remat/locked_storage.h"

namespace tidepool::torch_glue {

// While this is set, storages that this thread tracks first are optimizer state.
extern constinit thread_local bool t_in_optimizer;

// Returns the storage behind a tensor whose memory is the engine's allocator's. If it has not been
// tracked, it is tracked from now on, as a root. `written`: the operator is about to write it.
remat::Storage* track_argument(Engine& engine, c10::TensorImpl* tensor, bool written);

// Tracks an operator's result, as a root for `reason`; nullptr if it is not in fresh memory of the
// engine's. Requires: the device's lock is held.
remat::Storage* track_result(Engine& engine, c10::TensorImpl* tensor, remat::RootReason reason);

// Tracks results of an operator whose operands lie on other devices than theirs, such as a copy
// from the host: roots, which may leave. `own`: the engine of the operands, which tracks its own
// results; nullptr: there is none. Code that nobody vouches for may write such results later, and
// keeps them. Takes the locks of other engines.
void track_results_elsewhere(std::span<c10::TensorImpl* const> results, const Engine* own);

// Returns the tracked storage behind a StorageImpl; nullptr if that is foreign, empty, or not yet
// tracked. With a reason it is tracked from now on, as a root for that reason. Requires: the
// device's lock is held.
remat::Storage* find_tracked(Engine& engine, c10::StorageImpl* storage,
                             remat::RootReason reason = remat::RootReason::kNone);

// Locks those of the storages that the engine tracks, restores them, and adds the locks to `held`.
// nullptr is none. Takes the device's lock. Throws: OutOfMemory if they do not fit together.
void hold_on(Engine& engine, std::span<c10::StorageImpl* const> storages,
             std::vector<remat::HeldStorage>& held);

// Restores what tensors and their components lie in, on all devices, and locks it for as long as
// the result lives. Undefined tensors are none. Takes the devices' locks. Throws:
// c10::OutOfMemoryError if they do not fit together.
std::vector<remat::HeldStorage> hold_tensors(std::span<const at::Tensor> tensors);

}  // namespace tidepool::torch_glue
