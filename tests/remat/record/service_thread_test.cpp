#include "remat/record/service_thread.h"

#include <pthread.h>
#include <signal.h>

#include <future>
#include <string>

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("a thread of ours has its name, and takes no signals; the caller still does") {
  struct Seen {
    std::string name;
    bool blocks_interrupts = false;
  };
  std::promise<Seen> seen;
  start_service_thread("tidepool-test", [&] {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    seen.set_value({name, sigismember(&blocked, SIGINT) == 1});
  });
  const Seen what = seen.get_future().get();
  CHECK(what.name == "tidepool-test");
  CHECK(what.blocks_interrupts);
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  CHECK(sigismember(&blocked, SIGINT) == 0);
}

}  // namespace
}  // namespace tidepool::remat
