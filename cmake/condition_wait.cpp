// std::condition_variable::wait() for C++ libraries older than GCC 12's, which has a new version of
// it that an older library lacks: by the linker's --wrap this function is called instead.
#include <pthread.h>

#include <condition_variable>
#include <mutex>

extern "C" void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>& lock) {
  // With a mutex that this thread holds it cannot fail.
  (void)pthread_cond_wait(condition->native_handle(), lock.mutex()->native_handle());
}
