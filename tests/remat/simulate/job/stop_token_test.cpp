#include "remat/simulate/job/stop_token.h"

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("a stop token says stop once that is requested, and goes on saying so") {
  StopToken stop;
  for (int k = 0; k < 1000; ++k) REQUIRE(!stop.should_stop());
  CHECK(!stop.stop_requested());
  stop.request_stop();
  CHECK(stop.should_stop());
  CHECK(stop.should_stop());
  CHECK(stop.stop_requested());
}

TEST_CASE("a stop token says stop once its time is over, without a request") {
  StopToken stop;
  uint64_t now_ns = 1000;
  stop.set_limit([&] { return now_ns; }, 500);
  now_ns = 1499;
  for (int k = 0; k < 1000; ++k) REQUIRE(!stop.should_stop());
  now_ns = 1500;
  int calls = 1;
  while (!stop.should_stop() && calls < 1000) ++calls;
  CHECK(calls <= 64);
  now_ns = 0;
  CHECK(stop.should_stop());
  CHECK(!stop.stop_requested());
}

}  // namespace
}  // namespace tidepool::remat
