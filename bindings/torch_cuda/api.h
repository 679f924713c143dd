// The CUDA plugin's C interface, which the Python package calls through ctypes; the functions have
// the contracts of those in bindings/torch/api.h. Every function may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#define TIDEPOOL_EXPORT extern "C" __attribute__((visibility("default")))

TIDEPOOL_EXPORT uint32_t tidepool_built_for();

// Installs the CUDA allocator in this process; touches no device. `settings` is a JSON object:
//   {"budget_bytes": int > 0 | "budget_share": float in (0, 1], "poison": bool,
//    "handle_bytes": int (optional), "trace_events": int (optional), "allocator": "arena" or,
//    to debug, "native" (optional)}; other entries are ignored.
TIDEPOOL_EXPORT int tidepool_attach(const char* settings, char* error, size_t error_bytes);
TIDEPOOL_EXPORT int tidepool_attached();

// Statistics by device, "cuda:0" and so on: of devices that have allocated.
TIDEPOOL_EXPORT size_t tidepool_statistics(char* out, size_t capacity);

// Moves a storage (a c10::StorageImpl*) of ours into memory that other processes can map. Returns
// 0; 1 and a message if out of memory; 2 and a message if the device failed.
TIDEPOOL_EXPORT int tidepool_make_shareable(void* storage, char* error, size_t error_bytes);
