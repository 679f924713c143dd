// What the CUDA plugin's C interface has beyond bindings/torch/plugin/api.h. Differences from
// there: tidepool_attach() touches no device, and its `settings` are
//   {"budget_bytes": int > 0 | "budget_share": float in (0, 1] | "budget_auto": true (as much as
//    the device gives, but for a reserve), "rematerialize": bool (optional),
//    "allocator": "arena" or, to debug, "native" (optional)} and the entries of the CPU's;
// statistics are by device, "cuda:0" and so on: of devices that have allocated.
#pragma once

#include "bindings/torch/plugin/api.h"

// Moves a storage (a c10::StorageImpl*) of ours into memory that other processes can map. Returns
// 0; 1 and a message if out of memory; 2 and a message if the device failed.
TIDEPOOL_EXPORT int tidepool_make_shareable(void* storage, char* error, size_t error_bytes);
