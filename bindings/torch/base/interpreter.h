// What we ask of the Python interpreter in the process. Without one nothing is done. Thread safe.
#pragma once

namespace tidepool::torch_glue {

// Release and take Python's global lock around a wait, because the thread that is waited for may
// need it. Releases the lock if this thread has it. Returns what enter_interpreter() needs.
void* leave_interpreter();
void enter_interpreter(void* token);

// Has our own locks let go of Python's lock while they are waited for (InterpreterLock).
void keep_no_interpreter_waiting();

// Keeps torch.compile from tracing what Python runs on this thread. Returns what resume_tracing()
// needs; nullptr: it did not trace.
void* suspend_tracing();
void resume_tracing(void* token);

// Undisturbed: a scope in which the calling thread runs Python where we do not see its operators: a
// replay, or a compiled graph. The job's own code does not run there meanwhile, as far as Python
// lets us choose. What its objects do when they end waits for the collector, which is off in the
// process as long as any thread is in such a scope; a job that collects by itself there, or
// switches the collector on another thread, does so as it says. Handlers of signals wait for the
// end of the scope (bindings/python/tidepool/hooks/_signals.py). Scopes nest. Without an
// interpreter they do nothing. Requires at both ends: no lock of ours is held.
class Undisturbed {
 public:
  Undisturbed() { begin(); }
  ~Undisturbed() { end(); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

  static void begin();
  // `in_job`: the job's code goes on here. Where the scopes of several threads have left no moment
  // between them for a second, the collector runs then.
  static void end(bool in_job = false);
  // Whether the handler of a signal that has come has to wait, because the calling thread is in a
  // scope. Python is told of the signal again at its end.
  static bool defer_signal(int number);
  // In a forked child, where other threads' scopes do not exist. Requires: Python's global lock.
  static void become_forked_child();
};

}  // namespace tidepool::torch_glue
