#include "allocator/space/simulated_space.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

TEST_CASE("a simulated device of any size costs nothing and has the same addresses every time") {
  constexpr size_t kTerabyte = size_t{1} << 40;
  SimulatedSpace space(kPage);
  SimulatedSpace again(kPage);
  Address range = space.reserve(80 * kTerabyte);
  CHECK(range == again.reserve(80 * kTerabyte));
  HandleId handle = space.create_handle(kTerabyte);
  space.map(range, kTerabyte, handle);
  CHECK_FALSE(space.accessible(range, kTerabyte));
  CHECK_THROWS_AS(space.fill(range, 1, 0), DeviceError);
  space.set_access(range, kTerabyte);
  CHECK(space.accessible(range + 5, kTerabyte - 5));
  CHECK_FALSE(space.accessible(range, kTerabyte + 1));
  CHECK(space.handle_bytes_total() == kTerabyte);
  space.check_invariants();
}

TEST_CASE("the wall of mappings holds") {
  SimulatedSpace space(kPage, 2);
  Address range = space.reserve(8 * kPage);
  for (size_t i = 0; i < 2; ++i) space.map(range + i * kPage, kPage, space.create_handle(kPage));
  CHECK_THROWS_AS(space.map(range + 5 * kPage, kPage, space.create_handle(kPage)), DeviceError);
}

}  // namespace
}  // namespace tidepool
