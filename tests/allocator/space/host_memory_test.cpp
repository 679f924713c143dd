#include "allocator/space/host_memory.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("reserved addresses are aligned and cost no memory") {
#ifdef TIDEPOOL_SANITIZED
  constexpr size_t kBytes = size_t{1} << 36;  // a sanitizer's shadow may leave no more in one piece
#else
  constexpr size_t kBytes = size_t{1} << 40;
#endif
  Address start = host::reserve(kBytes, size_t{2} << 20);
  CHECK(start.value % (size_t{2} << 20) == 0);
  host::unreserve(start, kBytes);
}

TEST_CASE("the system's refusals are DeviceErrors that say what was asked") {
  CHECK_THROWS_AS(host::reserve(SIZE_MAX - 4096, 4096), DeviceError);
  try {
    host::reserve(size_t{1} << 62, 4096);
    FAIL("reserved");
  } catch (const DeviceError& error) {
    CHECK(std::string(error.what()).find("4611686018427387904 bytes") != std::string::npos);
  }
  CHECK(host::kernel_mapping_limit() >= 1024);
}

}  // namespace
}  // namespace tidepool
