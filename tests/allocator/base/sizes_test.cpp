#include "allocator/base/sizes.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("sizes read well and stay exact") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.00 KiB");
  CHECK(human_bytes(3 * kGiB / 2) == "1.50 GiB");
  CHECK(human_bytes(SIZE_MAX) == "16.00 EiB");
  CHECK(human_and_exact_bytes(64) == "64 bytes");
  CHECK(human_and_exact_bytes(3 * kGiB / 2) == "1.50 GiB (1610612736 bytes)");
}

TEST_CASE("rounding") {
  CHECK(round_up(0, 64) == 0);
  CHECK(round_up(1, 64) == 64);
  CHECK(round_up(64, 64) == 64);
  CHECK(round_down(127, 64) == 64);
  CHECK(is_power_of_two(4096));
  CHECK_FALSE(is_power_of_two(0));
  CHECK_FALSE(is_power_of_two(48));
}

}  // namespace
}  // namespace tidepool
