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

}  // namespace tidepool::torch_glue
