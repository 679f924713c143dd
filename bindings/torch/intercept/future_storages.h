// Future storages: a future of PyTorch's finds the storages of its value when it gets that, and
// asks for their addresses whenever somebody waits for it on a GPU: without an operator, and no
// matter whose code has made the value. The replacement keeps them resident from then on. Thread
// safe.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <vector>

namespace tidepool::torch_glue {

// The name of c10::ivalue::Future::extractStorages(), which PyTorch's libraries call.
inline constexpr const char* kFindFutureStorages =
    "_ZN3c106ivalue6Future15extractStoragesERKNS_6IValueE";

// Replaces it. What a collective works on is left to its own future: pending_collectives.h. Throws:
// c10::OutOfMemoryError if a storage cannot be brought back.
std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> find_future_storages(
    const c10::IValue& value);

}  // namespace tidepool::torch_glue
