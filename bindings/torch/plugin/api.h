// The plugin's C interface: what the Python package calls through ctypes, with no PyTorch or Python
// type in it. Every function may be called from any thread, with or without the GIL (those that may
// run operators wait for locks, so a caller that holds the GIL must release it: ctypes.CDLL does).
#pragma once

#include <cstddef>
#include <cstdint>

#define TIDEPOOL_EXPORT extern "C" __attribute__((visibility("default")))

// PyTorch version that this plugin was built for: major << 8 | minor.
TIDEPOOL_EXPORT uint32_t tidepool_built_for();

// Attaches to this process: installs the allocator, registers the operators' interception and
// switches the calling thread on. `settings` is a JSON object:
//   {"device": "cpu", "budget_bytes": int > 0, "policy": str, "chaos": "none"|"op"|"alloc"|
//    "random:SEED"|"bounded"|"bounded:SEED", "poison": bool, "page_bytes": int (optional),
//    "limits": {"depth": int, "versions": int, "age_steps": int, "records": int,
//    "bookkeeping_bytes": int} (optional), "recording": bool (opt.),
//    "planning": "background"|"wait"|"off" (optional: what the policy "planned" does beside the
//    job, or at the ends of its steps),
//    "log_allocations": bool (optional, CPU: for tidepool_allocation_log()),
//    "trace": {"path": str, "name": str, "first_step": int, "last_step": int, "blocks": bool}
//    (optional: a file for the job's trace, the steps that are recorded, and whether it has blocks;
//    TIDEPOOL_TRACE_BLOCKS=1),
//    "costs": {"path": str, "log": str} (optional, for tests and measurements of jobs of one
//    thread; TIDEPOOL_COSTS and TIDEPOOL_EVENT_LOG: operators, copies and maps cost what the trace
//    in that uncompressed file says, which is of the same job: another operator where the trace has
//    one is an error; and a file for what is done for the job, as remat/simulate/work_log.h has it.
//    Needs "trace", whose numbers of storages the log has)}
// Returns 0; or 2 and a message in `error` (cut to `error_bytes`, NUL-terminated); nothing is done.
// A second call after a success is an error.
TIDEPOOL_EXPORT int tidepool_attach(const char* settings, char* error, size_t error_bytes);
TIDEPOOL_EXPORT int tidepool_attached();

// Writes the statistics as JSON (the value of `devices`, keyed "cpu", "cuda:0", ...). Returns the
// bytes needed including the NUL; writes nothing if `capacity` is smaller.
TIDEPOOL_EXPORT size_t tidepool_statistics(char* out, size_t capacity);

// For tests, on the CPU: writes the allocations and frees since the start, if "log_allocations"
// asked for them, one a line, oldest first. Returns the bytes needed including the NUL; writes
// nothing if `capacity` is smaller.
TIDEPOOL_EXPORT size_t tidepool_allocation_log(char* out, size_t capacity);

// Includes (1) or excludes (0) interception on the calling thread. Returns the previous state.
TIDEPOOL_EXPORT int tidepool_thread(int on);
// 1 if interception is on for the calling thread.
TIDEPOOL_EXPORT int tidepool_thread_is_on();

// The functions below take a `c10::StorageImpl*` (Python: `untyped_storage()._cdata`).
// Restores an evicted storage: a reader of its pointer is about to look at it. No lasting effect.
// Returns 0; 1 and a message if out of memory; 2 and a message if a restoration failed.
TIDEPOOL_EXPORT int tidepool_make_resident(void* storage, char* error, size_t error_bytes);
// The same, and it stays resident where it is until it is let go: `*held` is what to say then, or
// nullptr if there is nothing to let go.
TIDEPOOL_EXPORT int tidepool_hold(void* storage, void** held, char* error, size_t error_bytes);
TIDEPOOL_EXPORT void tidepool_let_go(void* storage, void* held);
// Restored as well; the pointer now leaves our sight for good: never evicted again, dependents
// cut, and operators that read it produce roots.
TIDEPOOL_EXPORT int tidepool_escape(void* storage, char* error, size_t error_bytes);
// The pointer was asked for: the bytes may be written through it now, and it may be kept. A new
// root version, which stays where it is while the storage lives; but what later operators write
// into it counts as seen, so that results that read it can be recorded.
TIDEPOOL_EXPORT int tidepool_written(void* storage, char* error, size_t error_bytes);

// 0 not tracked, 1 resident root, 2 resident with lineage, 3 evicted, 4 escaped, -1 foreign memory.
TIDEPOOL_EXPORT int tidepool_state(void* storage);
// Evicts one storage (returns 1 if it could) or everything evictable (returns how many).
TIDEPOOL_EXPORT int tidepool_evict(void* storage);
TIDEPOOL_EXPORT size_t tidepool_evict_all();

// 1: marks storages first tracked on this thread as optimizer state in reports, and what is written
// in place stays. 0: no longer, and a step of the job ends (ages lineage). 2: no longer, and no
// step ends: an optimizer calls a closure, or its step raised.
TIDEPOOL_EXPORT void tidepool_optimizer_scope(int entering);

// The job ends: completes its trace, if that is recorded, and stops a search for a plan; there will
// be no other.
TIDEPOOL_EXPORT void tidepool_finish();

// Registers operators that were defined after attaching (cheap when there are none).
TIDEPOOL_EXPORT void tidepool_rescan_operators();

// A process-wide switch that decides bits, or a kernel, is about to be changed, by this thread.
// begin: everything evicted is restored and nothing is evicted until the end, which forgets how
// contents were made: what is recorded later is made under the new state. Pairs may nest.
// Returns 0; 1 and a message if it does not fit; 2 and a message if a restoration failed; then
// nothing was begun.
TIDEPOOL_EXPORT int tidepool_begin_settling(char* error, size_t error_bytes);
TIDEPOOL_EXPORT void tidepool_end_settling();

// Nobody vouches any more for the operators of this name, "aten::add", or for one overload,
// "aten::add.Tensor".
TIDEPOOL_EXPORT void tidepool_distrust(const char* name);

// A kernel that the job has registered for one of PyTorch's operators is about to be registered, or
// runs on the calling thread: an operator that calls it inside is not recorded, nor any draw.
TIDEPOOL_EXPORT void tidepool_note_own_kernel();

// The calling thread enters (1) or leaves (0) generated code that reads tensors by their addresses:
// what operators read and make in there stays where it is. Counted.
TIDEPOOL_EXPORT void tidepool_region(int entering);

// Switches recording of lineage on or off without detaching (off: operators are seen, results are
// roots). For measurements.
TIDEPOOL_EXPORT void tidepool_recording(int on);
