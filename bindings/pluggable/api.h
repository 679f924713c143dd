// The functions that torch.cuda.memory.CUDAPluggableAllocator and its hooks take, over Tidepool's
// arena of each CUDA device: a caching allocator with a hard budget, without anything of PyTorch's.
// Every function may be called from any thread. None throws but the one that says so. An error of
// the device or of a setting is one line on stderr and, where there is a result, null or 0; misuse
// of an address aborts with a line that names it. See docs/pluggable.md.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <utility>

#define TIDEPOOL_EXPORT extern "C" __attribute__((visibility("default")))

struct CUstream_st;  // what cudaStream_t points to

// PyTorch's MempoolId_t and stream filter: C++ types, passed as PyTorch passes them.
using TidepoolPoolId = std::pair<unsigned long long, unsigned long long>;
using TidepoolStreamFilter = std::function<bool(CUstream_st*)>;

// A block of `size` bytes, aligned to 512, that `stream` may use at once. Null: 0 bytes were asked
// for, or there is no room in the budget.
TIDEPOOL_EXPORT void* tidepool_malloc(ssize_t size, int device, CUstream_st* stream);
// The same for callers in C++ who would use the null: PyTorch does, and its kernels then write to
// address 0. Throws: std::runtime_error with the line, which PyTorch makes a RuntimeError of.
TIDEPOOL_EXPORT void* tidepool_malloc_or_throw(ssize_t size, int device, CUstream_st* stream);
// Aborts unless the block was asked for with these arguments, and not freed since. Null is no
// block, and ignored.
TIDEPOOL_EXPORT void tidepool_free(void* address, ssize_t size, int device, CUstream_st* stream);

// The hooks, in the order in which torch::cuda::CUDAPluggableAllocator declares their setters.
TIDEPOOL_EXPORT void tidepool_init(int device_count);
// Gives free memory back: torch.cuda.empty_cache().
TIDEPOOL_EXPORT void tidepool_reset();
TIDEPOOL_EXPORT void tidepool_memory_fraction(double fraction, int device);
// The block itself, and its size: each is its own base. Null and 0 where none starts.
TIDEPOOL_EXPORT void* tidepool_base_alloc(void* address, size_t* size);
// The block is not used again before what `stream` has been given by the time it is freed has run.
TIDEPOOL_EXPORT void tidepool_record_stream(void* address, CUstream_st* stream);
TIDEPOOL_EXPORT void tidepool_begin_allocate_to_pool(int device, TidepoolPoolId pool,
                                                     TidepoolStreamFilter filter);
TIDEPOOL_EXPORT void tidepool_end_allocate_to_pool(int device, TidepoolPoolId pool);
TIDEPOOL_EXPORT void tidepool_release_pool(int device, TidepoolPoolId pool);

// Not PyTorch's: the budget of devices that have not allocated yet, instead of TIDEPOOL_BUDGET.
// Returns 0, or 1 if it is no size.
TIDEPOOL_EXPORT int tidepool_set_budget(const char* size);
// One of budget_bytes, requested_bytes, allocated_bytes, allocated_peak_bytes, reserved_bytes,
// reserved_peak_bytes, allocations, frees, out_of_memory.
TIDEPOOL_EXPORT size_t tidepool_statistic(int device, const char* name);
