#include "allocator/streams/fence.h"

#include <thread>

#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("a host fence passes once and for ever", "[stress]") {
  HostFence fence;
  CHECK_FALSE(fence.passed());
  std::thread other([&] { fence.pass(); });
  fence.wait();
  CHECK(fence.passed());
  other.join();
  fence.pass();
  fence.wait();
  CHECK(fence.passed());
}

}  // namespace
}  // namespace tidepool
