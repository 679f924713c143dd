#include "cuda/driver/driver_library.h"

#include <dlfcn.h>

#include "allocator/space/address_space.h"
#include "cuda/device_arena.h"
#include "tests/support/catch.h"

namespace tidepool::device {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("without a driver there is a message, and with one the next call finds it") {
  if (void* library = dlopen("libcuda.so.1", RTLD_NOW); library == nullptr) {
    CHECK_THROWS_WITH(DriverLibrary::instance(), ContainsSubstring("no CUDA driver"));
  } else {
    dlclose(library);
  }
  // The stand-in device's, which then answers to the name of NVIDIA's.
  REQUIRE(dlopen(FAKE_LIBCUDA, RTLD_NOW) != nullptr);
  DriverLibrary& library = DriverLibrary::instance();
  CHECK(&library == &DriverLibrary::instance());
  REQUIRE(library.device_count() >= 1);
  CHECK(library.memory_bytes(0) >= size_t{1} << 30);
  CHECK_THROWS_AS(library.memory_bytes(library.device_count()), DeviceError);

  AllocatorConfig config;
  config.budget_bytes = size_t{64} << 20;
  config.page_bytes = size_t{2} << 20;
  DeviceArena arena(library.functions(), 0, config);
  arena.free(arena.allocate(5'000'000, nullptr));
}

}  // namespace
}  // namespace tidepool::device
