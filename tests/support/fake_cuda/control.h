// Control: the C functions by which tests steer and inspect the stand-in device, from C++, from
// Python by ctypes (tests/support/standin.py), or by dlsym. README.md beside this file shows how.
// Thread safe. Texts are written as C strings, cut to the room there is.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tests/support/fake_cuda/core/export.h"

// Sets what the environment variable FAKE_CUDA_<name> sets, from now on. FAIL counts calls from now
// and adds to what is there; DEVICES and MEMORY are too late. Returns 0, or -1 for a wrong name or
// text.
FAKE_CUDA_API int fake_cuda_set(const char* name, const char* text);
FAKE_CUDA_API void fake_cuda_clear_failures();

// Calls of a kind so far ("map", "event_record", …), and those made to fail; 2^64 - 1: there is
// no such kind.
FAKE_CUDA_API uint64_t fake_cuda_calls(const char* kind);
FAKE_CUDA_API uint64_t fake_cuda_failures(const char* kind);
// Virtual: the sum of the prices the host has paid and waited for.
FAKE_CUDA_API uint64_t fake_cuda_host_time_ns();
// What part of it the host has spent waiting for work.
FAKE_CUDA_API uint64_t fake_cuda_host_waited_ns();
// Virtual: when a stream will have done all that it was given, and for how long it had work and
// waited for other streams.
FAKE_CUDA_API uint64_t fake_cuda_stream_time_ns(void* stream);
FAKE_CUDA_API uint64_t fake_cuda_stream_stalled_ns(void* stream);

FAKE_CUDA_API size_t fake_cuda_used_bytes(int device);
FAKE_CUDA_API size_t fake_cuda_used_peak_bytes(int device);
// How many are alive of: streams, events, graphs, allocations, host_allocations, reservations,
// handles, mappings, ranges. 2^64 - 1: no such thing.
FAKE_CUDA_API size_t fake_cuda_live(const char* what);

// The device has done all work enqueued on the stream; the host finds out when it asks.
FAKE_CUDA_API void fake_cuda_complete(void* stream);

// Adds work of the host's to the graph that a stream is being captured into: work(data) runs at
// each launch of what is made of the graph, drop(data) once all of that is gone. Returns 0, and
// takes nothing, where the stream is not being captured; with no work it only says so.
FAKE_CUDA_API int fake_cuda_capture_work(void* stream, void (*work)(void*), void (*drop)(void*),
                                         void* data);

// Waits until what other processes have to do, before an operation that a stream is given now, is
// done: for who reads memory himself instead of a kernel.
FAKE_CUDA_API void fake_cuda_settle(void* stream);

// Lists: races, misuses, log. Returns the number of entries; those of an index out of range have no
// text. fake_cuda_forget empties races or misuses.
FAKE_CUDA_API size_t fake_cuda_count(const char* list);
FAKE_CUDA_API void fake_cuda_entry(const char* list, size_t index, char* text, size_t room);
FAKE_CUDA_API void fake_cuda_forget(const char* list);

// Declarations for the race checker (core/race_checker.h): a range was handed out for a stream,
FAKE_CUDA_API void fake_cuda_range_allocated(const void* start, size_t bytes, void* stream);
FAKE_CUDA_API void fake_cuda_range_shared(const void* start, void* stream);
FAKE_CUDA_API void fake_cuda_range_used(const void* start, size_t bytes, void* stream);
FAKE_CUDA_API void fake_cuda_range_written(const void* start, size_t bytes, void* stream);
FAKE_CUDA_API void fake_cuda_range_freed(const void* start);
