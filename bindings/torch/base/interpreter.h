// What we ask of the Python interpreter in the process. Without one nothing is done. Thread safe.
#pragma once

namespace tidepool::torch_glue {

// Release and take Python's global lock around a wait, because the thread that is waited for may
// need it. Releases the lock if this thread has it. Returns what enter_interpreter() needs.
void* leave_interpreter();
void enter_interpreter(void* token);

// Keeps torch.compile from tracing what Python runs on this thread. Returns what resume_tracing()
// needs; nullptr: it did not trace.
void* suspend_tracing();
void resume_tracing(void* token);

// Undisturbed: a scope in which the calling thread runs Python where we do not see its operators: a
// replay, or code that is one operator to us. Nothing else of the job's runs there meanwhile. What
// its objects do when they end waits for the collector, which is off in the process as long as any
// thread is in such a scope; where scopes of several threads leave no moment between them, it runs
// at the end of one of them each second. Handlers of signals wait for the end, too. Scopes nest.
class Undisturbed {
 public:
  Undisturbed() { begin(); }
  ~Undisturbed() { end(); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

  static void begin();
  static void end();
  // Whether the handler of a signal that has come has to wait, because the calling thread is in a
  // scope. Python is told of the signal again at its end.
  static bool defer_signal(int number);
};

}  // namespace tidepool::torch_glue
