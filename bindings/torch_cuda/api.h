// The CUDA plugin's C interface: that of bindings/torch/plugin/api.h, with these differences:
// - tidepool_attach() touches no device; bindings/torch_cuda/settings.h has its `settings`;
// - statistics have a member "cuda:0" and so on for each device that has allocated;
// - the functions below are there, too.
#pragma once

#include "bindings/torch/plugin/api.h"

// Moves a storage (a c10::StorageImpl*) of ours into memory that other processes can map. Returns 0
// if that was done, 1 and a message if memory ran out, 2 and a message if the device failed.
TIDEPOOL_EXPORT int tidepool_make_shareable(void* storage, char* error, size_t error_bytes);
