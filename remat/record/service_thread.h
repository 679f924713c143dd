// start_service_thread(): starts a thread of ours beside the job's. It takes no signals, which are
// for the job's threads, has a name that tools show, and nobody waits for it.
#pragma once

#include <functional>

namespace tidepool::remat {

// `name`: at most 15 characters. `work` owns all that it uses, and does not throw.
// Throws: std::system_error if there can be no thread.
void start_service_thread(const char* name, std::function<void()> work);

}  // namespace tidepool::remat
