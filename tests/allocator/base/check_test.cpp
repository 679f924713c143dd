#include "allocator/base/check.h"

#include "tests/support/catch.h"
#include "tests/support/death.h"

namespace tidepool {
namespace {

TEST_CASE("a check that fails ends the process with place, condition and values") {
  std::string message;
  int value = 3;
  CHECK(test::dies([&] { TIDEPOOL_CHECK(value == 4, "value %d of %s", value, "x"); }, &message));
  CHECK(message.find("check_test.cpp:") != std::string::npos);
  CHECK(message.find("value == 4: value 3 of x") != std::string::npos);
  CHECK_FALSE(test::dies([&] { TIDEPOOL_CHECK(value == 3, "value %d", value); }));
}

TEST_CASE("a message longer than the buffer is cut, not overrun") {
  std::string long_text(5000, 'x'), message;
  CHECK(test::dies([&] { TIDEPOOL_CHECK(false, "%s", long_text.c_str()); }, &message));
  CHECK(message.size() < 1100);
}

}  // namespace
}  // namespace tidepool
