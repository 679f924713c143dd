// The threads that OpenMP keeps for the kernels of the calling thread. A forked child does not have
// them although OpenMP takes them for granted there: the child's first kernel on several threads,
// such as a replay of one that its parent ran so, would wait for them for ever. So they end before
// a fork, and parent and child each start others with their next such kernel.
// Thread safe: each thread has its own.
#pragma once

namespace tidepool::torch_glue {

// Ends the threads, where OpenMP can (5.0). Nothing happens inside of a parallel region.
void end_thread_pool();

// Starts the threads again after end_thread_pool() where they would not do what they did: a thread
// rounds, and flushes denormal numbers, as the one did that started it.
void restart_thread_pool();

}  // namespace tidepool::torch_glue
