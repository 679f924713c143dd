#include "remat/simulate/stop_sign.h"

#include "tests/support/catch.h"

namespace tidepool::plan {
namespace {

TEST_CASE("a stop sign passes once it is told to, and stays so") {
  StopSign sign;
  for (int k = 0; k < 1000; ++k) REQUIRE(!sign.passed());
  CHECK(!sign.told());
  sign.tell();
  CHECK(sign.passed());
  CHECK(sign.passed());
  CHECK(sign.told());
}

TEST_CASE("a stop sign passes once its time is over, which nobody has told it") {
  StopSign sign;
  uint64_t now_ns = 1000;
  sign.set_limit([&] { return now_ns; }, 500);
  now_ns = 1499;
  for (int k = 0; k < 1000; ++k) REQUIRE(!sign.passed());
  now_ns = 1500;
  int calls = 1;
  while (!sign.passed() && calls < 1000) ++calls;
  CHECK(calls <= 64);
  now_ns = 0;
  CHECK(sign.passed());
  CHECK(!sign.told());
}

}  // namespace
}  // namespace tidepool::plan
