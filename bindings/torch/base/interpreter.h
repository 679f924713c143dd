// Release and take Python's global lock around a wait, because the thread that is waited for may
// need it.
// Without Python in the process they do nothing. Thread safe.
#pragma once

namespace tidepool::torch_glue {

// Releases the lock if this thread has it. Returns what enter_interpreter() needs.
void* leave_interpreter();
void enter_interpreter(void* token);

}  // namespace tidepool::torch_glue
