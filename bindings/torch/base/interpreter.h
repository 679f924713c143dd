// Python's global lock, for threads that are about to wait: whoever they wait for may need it.
// Without Python in the process nothing happens. Thread safe.
#pragma once

namespace tidepool::torch_glue {

// Releases the lock if this thread has it. Returns what enter_interpreter() needs.
void* leave_interpreter();
void enter_interpreter(void* token);

}  // namespace tidepool::torch_glue
