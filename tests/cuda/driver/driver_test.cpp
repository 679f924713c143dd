#include "cuda/driver/driver.h"

#include "tests/cuda/fake_driver.h"
#include "tests/support/catch.h"

namespace tidepool::device {
namespace {

std::string message_of(const std::function<void()>& code) {
  try {
    code();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("a driver without what is needed, or a device that is not there, is refused by name") {
  test::FakeDriver fake;
  DriverFunctions functions = find_driver_functions(fake.finder({"cuEventRecord", "cuMemAlloc"}));
  CHECK(message_of([&] { Driver driver(functions, 0); }) ==
        "the CUDA driver lacks cuEventRecord, cuMemAlloc");
  CHECK(message_of([&] { Driver driver(fake.functions(), 1); }).find("cuDeviceGet, device 1") !=
        std::string::npos);
}

TEST_CASE("virtual memory is there if the functions and the device have it") {
  test::FakeDriver fake;
  CHECK(Driver(fake.functions(), 0).has_virtual_memory());
  CHECK_FALSE(Driver(find_driver_functions(fake.finder({"cuMemMap"})), 0).has_virtual_memory());
  fake.virtual_memory = false;
  CHECK_FALSE(Driver(fake.functions(), 0).has_virtual_memory());
}

TEST_CASE("an error says the call, the device, the driver's name and text") {
  test::FakeDriver fake;
  Driver driver(fake.functions(), 0);
  CHECK(message_of([&] { driver.check(driver::kOutOfMemory, "cuMemMap"); }) ==
        "cuMemMap, device 0: CUDA_ERROR_OUT_OF_MEMORY (2), out of memory");
  CHECK_NOTHROW(driver.check(driver::kSuccess, "cuMemMap"));
}

TEST_CASE("a scope makes the device current and leaves what was") {
  test::FakeDriver fake(2);
  {
    Driver driver(fake.functions(), 1);
    CHECK(fake.primary_references(1) == 0);  // nothing is touched before it is needed
    fake.make_current(0);
    {
      Driver::Scope scope(driver);
      CHECK(fake.current_device() == 1);
      Driver::Scope inner(driver);
    }
    CHECK(fake.current_device() == 0);
    CHECK(fake.primary_references(1) == 1);
  }
  CHECK(fake.primary_references(1) == 0);
}

}  // namespace
}  // namespace tidepool::device
