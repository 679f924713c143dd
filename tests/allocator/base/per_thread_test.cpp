#include "allocator/base/per_thread.h"

#include <string>
#include <thread>

#include "tests/support/catch.h"

namespace tidepool {
namespace {

std::string g_seen;

struct Counted {
  std::string text = "made";
  ~Counted() { g_seen += " destroyed:" + text; }
};
struct Other {};

// Destroyed as a program's own thread-local objects are.
struct Late {
  bool is_used = false;
  ~Late() {
    if (is_used) g_seen += " late:" + PerThread<Counted>::get().text;
  }
};

TEST_CASE("each thread has an object of its own") {
  PerThread<int>::get() = 1;
  std::thread([] {
    CHECK(PerThread<int>::get() == 0);
    PerThread<int>::get() = 2;
  }).join();
  CHECK(PerThread<int>::get() == 1);
  CHECK(PerThread<int, Other>::get() == 0);
}

TEST_CASE("destructors of thread-local objects still find a thread's object") {
  g_seen.clear();
  std::thread([] {
    static thread_local Late late;
    late.is_used = true;
    PerThread<Counted>::get().text = "used";
  }).join();
  CHECK(g_seen == " late:used destroyed:used");
}

}  // namespace
}  // namespace tidepool
