// The plugin's C interface: what the Python package calls through ctypes, with no PyTorch or Python
// type in it. Every function may be called from any thread, with or without the GIL (those that may
// run operators wait for locks, so a caller that holds the GIL must release it: ctypes.CDLL does).
#pragma once

#include <cstddef>
#include <cstdint>

#define TIDEPOOL_EXPORT extern "C" __attribute__((visibility("default")))

// Returns the PyTorch version that this plugin was built for: major << 8 | minor.
TIDEPOOL_EXPORT uint32_t tidepool_built_for();

// Attaches to this process: installs the allocator, registers the operators' interception and
// switches the calling thread on. `settings` is a JSON object; its entries are described where they
// are read: bindings/torch/base/settings.h, and settings.h in the folder of the plugin. Besides,
// "record": {"path": str, "name": str, "bytes": int} names a file for what is done for the job
// (docs/work-ring.md), and how large it is. Entries that nobody reads are ignored.
// Returns 0; or 2, with a message in `error` (cut to `error_bytes`, NUL-terminated), and does
// nothing. A second call after a success is an error.
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
// Returns 1 if interception is on for the calling thread, else 0.
TIDEPOOL_EXPORT int tidepool_thread_is_on();

// The functions below take a `c10::StorageImpl*` (Python: `untyped_storage()._cdata`).
// Restores an evicted storage for a reader that is about to look at its pointer. Has no lasting
// effect.
// Returns 0; 1 and a message if out of memory; 2 and a message if a restoration failed.
TIDEPOOL_EXPORT int tidepool_make_resident(void* storage, char* error, size_t error_bytes);
// Restores a storage, and keeps it resident where it is until it is let go. `*held` has to be
// passed on then; nullptr: there is nothing to let go.
TIDEPOOL_EXPORT int tidepool_hold(void* storage, void** held, char* error, size_t error_bytes);
// The same for a storage whose bytes are written until it is let go, and through no address that
// is kept: its contents are a new root version.
TIDEPOOL_EXPORT int tidepool_hold_to_write(void* storage, void** held, char* error,
                                           size_t error_bytes);
TIDEPOOL_EXPORT void tidepool_let_go(void* storage, void* held);
// Restores a storage whose pointer leaves our sight for good: it is never evicted again, what
// depends on it is cut, and results of operators that read it are roots.
TIDEPOOL_EXPORT int tidepool_escape(void* storage, char* error, size_t error_bytes);
// Restores a storage whose pointer was asked for: the bytes may be written through it now, and it
// may be kept. The contents are a new root version, which stays where it is while the storage
// lives. But what later operators write into it counts as seen, so that operators that read it can
// be recorded.
TIDEPOOL_EXPORT int tidepool_written(void* storage, char* error, size_t error_bytes);

// What the method below needs of the running Python. Both types are `torch.Tensor` and
// `torch.nn.Parameter`; `type_offset` and `impl_offset` say where an object of these has the
// pointers to its type and to its `c10::TensorImpl`; `integer_of` is PyLong_FromVoidPtr, `call`
// PyObject_CallOneArg; `otherwise` is a callable that takes the tensor, kept alive by the caller.
// The others are PyEval_GetFrame, PyFrame_GetCode, PyFrame_GetLasti and Py_DecRef.
struct tidepool_python_tensors {
  void* tensor_type;
  void* parameter_type;
  size_t type_offset;
  size_t impl_offset;
  void* (*integer_of)(void*);
  void* (*call)(void*, void*);
  void* otherwise;
  void* (*frame)();
  void* (*code_of)(void*);
  int (*instruction_of)(void*);
  void (*drop)(void*);
};
typedef void* (*tidepool_python_method)(void* self, void* no_arguments);
// Returns a function for a PyMethodDef without arguments, which gives a tensor's address after
// tidepool_written() for a parameter, or where the job keeps no address, and tidepool_escape()
// else. Where these would have to wait, where something overrides PyTorch's functions, for other
// types of tensors, and at places of the job that are not known, it returns what `otherwise` does.
// It has to be called with the GIL, as Python calls methods.
TIDEPOOL_EXPORT tidepool_python_method
tidepool_data_ptr_method(const tidepool_python_tensors* python);
// Says whether a place of the job that asks for addresses may keep them: an instruction of a code
// object, which stays alive. With the GIL.
TIDEPOOL_EXPORT void tidepool_address_place(void* code, int instruction, int keeps);

// PyMethod_New, PyObject_Call and Py_DecRef of the running Python.
struct tidepool_python_calls {
  void* (*bind)(void* function, void* self);
  void* (*call)(void* callable, void* arguments, void* keywords);
  void (*drop)(void*);
};
typedef void* (*tidepool_python_function)(void* self, void* arguments, void* keywords);
// Returns a function for a PyMethodDef with arguments and keywords, which calls `function`, an
// object that stays alive, with itself and these. nullptr: there are no more. With the GIL.
TIDEPOOL_EXPORT tidepool_python_function tidepool_method_for(const tidepool_python_calls* python,
                                                             void* function);

// Says that a storage's bytes are about to go while what was computed from them is still in use:
// the job resizes it to nothing and will fill it again, as FSDP does with gathered parameters, or
// it is a copy for one call of a compiled graph. What was computed from them can be evicted all the
// same: the bytes are kept for that where it pays and memory is not short.
TIDEPOOL_EXPORT void tidepool_gives_up(void* storage);

// Returns the storage's state: 0 not tracked, 1 resident root, 2 resident with lineage, 3 evicted,
// 4 escaped, -1 foreign memory.
TIDEPOOL_EXPORT int tidepool_state(void* storage);
// Returns 1 if nothing need be done when the address of a storage is asked for: an operator that is
// intercepted uses it, or it stays where it is, and, with `may_write`, is known to be written.
TIDEPOOL_EXPORT int tidepool_is_accessible(void* storage, int may_write);
// Evicts one storage (returns 1 if it could) or everything evictable (returns how many).
TIDEPOOL_EXPORT int tidepool_evict(void* storage);
TIDEPOOL_EXPORT size_t tidepool_evict_all();

// The calling thread enters (1) or leaves (0, 2) an optimizer's step. In it, storages that are
// tracked first are optimizer state in reports, and what is written in place stays. With 0 a step
// of the job ends; with 2 it does not, because the optimizer calls a closure, or its step raised.
TIDEPOOL_EXPORT void tidepool_optimizer_scope(int entering);

// Says that the job ends: completes its trace, if that is recorded, and stops searching for plans.
TIDEPOOL_EXPORT void tidepool_finish();

// From now on `source` says, for each operator of a job with a trace, where the job calls it: a
// JSON text that lives as long as the process, and is the same pointer for the same place; nullptr
// where it is not known. It is called without a lock of ours on the operator's thread.
TIDEPOOL_EXPORT void tidepool_set_place_source(const char* (*source)());

// Registers operators that were defined after attaching, and lets go of those that were taken away
// (cheap when there are none).
TIDEPOOL_EXPORT void tidepool_rescan_operators();

// These stand around a change, by this thread, of a process-wide switch that decides bits, or of a
// kernel. The first restores what can only be computed again, and nothing is evicted until the
// second, which forgets how contents were made, so that all that is recorded was made under the new
// state. What a tier has copies of may stay away meanwhile. Pairs nest and may overlap.
// The first returns 0; or, with a message and nothing begun, 1 if not everything fits, 2 if a
// restoration failed. Here and below, `*begun` says that, and what, has begun, and has to be passed
// on: where a handler of a signal raises in Python as the first function returns, only that is
// known of it. What nullptr stands for has not begun, and its end does nothing.
TIDEPOOL_EXPORT int tidepool_begin_settling(void** begun, char* error, size_t error_bytes);
TIDEPOOL_EXPORT void tidepool_end_settling(void* begun);

// These stand around work of the job's for which nothing may be evicted: the first restores
// everything. Blocks nest and may overlap. The first returns what tidepool_begin_settling() does.
// What has been recorded is as good as before.
TIDEPOOL_EXPORT int tidepool_begin_keeping(void** kept, char* error, size_t error_bytes);
TIDEPOOL_EXPORT void tidepool_end_keeping(void* kept);

// Holds at most so many bytes from each device from now on, or the budget that was attached with,
// if that is less: evicts what has to go. On CUDA that concerns the devices that have allocated.
// Returns 0; 1 and a message if what cannot be evicted takes more, and the limit is what it was; or
// 2 and a message if there is nothing to limit, or a graph is being captured.
TIDEPOOL_EXPORT int tidepool_set_limit(uint64_t bytes, char* error, size_t error_bytes);

// Ends the trust in the operators of this name, "aten::add", or in one overload,
// "aten::add.Tensor".
TIDEPOOL_EXPORT void tidepool_distrust(const char* name);

// These stand around the registration of a router of PyTorch's (torch._native) for an operator,
// "aten::bmm" or "aten::add.Tensor": what it does not give to kernels in Python, around each of
// which tidepool_begin_own_kernel() stands, it passes on to the kernel that is there before.
// `anew`: it was there before the device's allocator was attached, and has been taken away.
// tidepool_note_router() says that a router runs on the calling thread.
TIDEPOOL_EXPORT void tidepool_begin_routing(const char* name, int anew);
TIDEPOOL_EXPORT void tidepool_end_routing(const char* name);
TIDEPOOL_EXPORT void tidepool_note_router();

// Has `judge` say, at the first call of each operator that is not of PyTorch's own, whether it may
// be replayed (not 0): bindings/torch/calls/operator_info.h. It is called on the thread of the
// call, without locks. To be called before tidepool_attach(), if at all.
TIDEPOOL_EXPORT void tidepool_judge_operators(bool (*judge)(const char* name, const char* library,
                                                            bool tells_all));

// Writes the path of the library that has the kernel of an operator, "mylib::add" or
// "mylib::add.Tensor", for the device's tensors; nothing if that is not known. Returns the bytes
// needed including the NUL; writes nothing if `capacity` is smaller. May be called before
// tidepool_attach().
TIDEPOOL_EXPORT size_t tidepool_kernel_library(const char* name, char* out, size_t capacity);

// Says that a kernel which the job has registered, for an operator of PyTorch's (1) or of another
// library whose operators are recorded (0), runs on the calling thread, or is about to be
// registered. An operator that calls it inside is not recorded; with 1, no draw is from then on.
TIDEPOOL_EXPORT void tidepool_note_own_kernel(int of_pytorch);
// These stand around such a kernel, or one that a router of PyTorch's calls, on one thread.
TIDEPOOL_EXPORT void tidepool_begin_own_kernel(void** begun);
TIDEPOOL_EXPORT void tidepool_end_own_kernel(void* begun);
// Says that kernels were taken away which may have been there before tidepool_attach().
TIDEPOOL_EXPORT void tidepool_wrap_own_kernels();

// These stand around what a program without Python calls of LibTorch's: functions that read tensors
// by their addresses, such as torch::save, during which everything is resident; and those that
// change a switch, as tidepool_begin_settling() has it. Calls nest. The first ones throw
// c10::OutOfMemoryError or c10::Error, with nothing begun.
TIDEPOOL_EXPORT void tidepool_enter_reader();
TIDEPOOL_EXPORT void tidepool_leave_reader();
TIDEPOOL_EXPORT void tidepool_enter_switch();
TIDEPOOL_EXPORT void tidepool_leave_switch();

// A program without Python is about to get the address of a tensor (an at::TensorBase*), outside of
// operators. Restores it. If the program may write there the storage escapes, or else it stays
// where it is. Throws c10::OutOfMemoryError or c10::Error.
TIDEPOOL_EXPORT void tidepool_take_address(void* tensor, int may_write);

// Says that libraries were loaded. Their calls of PyTorch's functions are redirected now, and what
// operators make whose kernels they have replaced is kept, as with the libraries that were there
// before. Does nothing before tidepool_attach().
TIDEPOOL_EXPORT void tidepool_note_libraries();

// These stand around generated code that reads tensors by their addresses, on one thread: what
// operators read and make in there stays where it is. Pairs nest.
TIDEPOOL_EXPORT void tidepool_begin_region(void** begun);
TIDEPOOL_EXPORT void tidepool_end_region(void* begun);

// The calling thread enters (1) or leaves (0) code in Python whose operators are not seen: a
// compiled graph. Meanwhile Python's collector is off, and handlers of signals have to wait. Calls
// nest. 2: this process is a forked child. Requires: the thread has Python's global lock, or can
// get it.
TIDEPOOL_EXPORT void tidepool_undisturbed(int what);
// Whether the handler of a signal that has come has to wait, because this thread is in such code,
// or in a replay. Python is told of the signal again at the end of that.
TIDEPOOL_EXPORT int tidepool_defer_signal(int number);

// Returns a handle of an operator, "aten::mm" or "aten::mm.out", of which it is known that it does
// what its schema says, draws nothing, and gives the same bits each time under some switches of
// PyTorch's, if neither `transposed` nor `dropout_p` is among its arguments, or both are zero;
// nullptr for any other. With `draws`, `dropout_p` may be another number than zero: what it draws
// comes from the default generator only, or the generator that tidepool_draw_from() puts there.
TIDEPOOL_EXPORT const void* tidepool_known_operator(const char* name, int draws);
// Returns 1 if what is known of these operators holds for the kernels that they have now, under the
// present switches.
TIDEPOOL_EXPORT int tidepool_are_as_known(const void* const* operators, size_t count);

// Restores storages together, and keeps them resident until they are let go; nullptr among them is
// skipped. `*held` has to be passed on then. Returns what tidepool_hold() does.
TIDEPOOL_EXPORT int tidepool_hold_all(void* const* storages, size_t count, void** held, char* error,
                                      size_t error_bytes);
TIDEPOOL_EXPORT void tidepool_let_all_go(void* held);
// The calling thread is about to run a compiled graph that draws from the default generator of a
// CUDA device, whose state is written to `seed` and `offset`. PyTorch's draws in other threads wait
// until the draws are ended, by this thread. Returns nullptr, and has begun nothing, while a CUDA
// graph is captured, and within such draws of this thread's.
TIDEPOOL_EXPORT void* tidepool_begin_draws(int device, uint64_t* seed, uint64_t* offset);
// Leaves the generator as if the graph had drawn up to `offset`. Returns 0; or 1 if somebody else
// has drawn from it meanwhile, unseen, or set it to a later state, where it stays then.
TIDEPOOL_EXPORT int tidepool_end_draws(void* draws, uint64_t offset);
// Has the calling thread's kernels draw from a generator in this state, instead of the device's
// default one, until tidepool_drawn(), which returns the offset they have come to. Calls nest.
TIDEPOOL_EXPORT void tidepool_draw_from(int device, uint64_t seed, uint64_t offset);
TIDEPOOL_EXPORT uint64_t tidepool_drawn();
// Says that a compiled graph has made the contents of these storages, and will not run again for
// them.
TIDEPOOL_EXPORT void tidepool_made_by_graph(void* const* storages, size_t count);

// Switches recording of lineage on or off, for measurements. While it is off, operators are seen,
// but their results are roots.
TIDEPOOL_EXPORT void tidepool_recording(int on);
