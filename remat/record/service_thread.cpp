#include "remat/record/service_thread.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace tidepool::remat {
namespace {

// Signals are blocked on this thread, as long as this lives.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

void start_service_thread(const char* name, std::function<void()> work) {
  const NoSignals none;  // the thread inherits it
  std::thread([name, work = std::move(work)] {
    pthread_setname_np(pthread_self(), name);
    work();
  }).detach();
}

}  // namespace tidepool::remat
