#include "cuda/space/virtual_memory_space.h"

#include "tests/cuda/fake_driver.h"
#include "tests/support/address_space_contract.h"
#include "tests/support/catch.h"

namespace tidepool::device {
namespace {

constexpr size_t kPage = tidepool::test::kPage;

struct World {
  static constexpr bool kHasMemory = false;
  explicit World(const VirtualMemoryOptions& options = {}) : space(driver, options) {}

  struct Fake : test::FakeDriver {
    Fake() : test::FakeDriver(2) { granularity = kPage; }
  };
  Fake fake;
  Driver driver{fake.functions(), 0};
  VirtualMemorySpace space;
};

TEST_CASE("virtual memory keeps the contract of an address space") {
  tidepool::test::check_pages_move<World>();
  tidepool::test::check_scattered_handles<World>();
  tidepool::test::check_rules<World>();
}

TEST_CASE("the granularity is the device's, or a greater power of two") {
  test::FakeDriver fake;
  Driver driver(fake.functions(), 0);
  CHECK(VirtualMemorySpace(driver).granularity() == fake.granularity);
  CHECK(VirtualMemorySpace(driver, {fake.granularity * 8}).granularity() == fake.granularity * 8);
  CHECK_THROWS_AS(VirtualMemorySpace(driver, {fake.granularity / 2}), DeviceError);
  CHECK_THROWS_AS(VirtualMemorySpace(driver, {fake.granularity * 3}), DeviceError);
  fake.virtual_memory = false;
  Driver without(fake.functions(), 0);
  CHECK_THROWS_AS(VirtualMemorySpace(without), DeviceError);
}

TEST_CASE("a run of mappings is opened by one call and unmapped by one") {
  World world;
  Address range = world.space.reserve(8 * kPage);
  std::vector<HandleId> handles;
  for (size_t i = 0; i < 8; ++i) {
    handles.push_back(world.space.create_handle(kPage));
    world.space.map(range + i * kPage, kPage, handles[i]);
  }
  CHECK_FALSE(world.fake.accessible(range.value, 0));
  world.space.set_access(range, 8 * kPage);
  CHECK(world.fake.calls("cuMemSetAccess") == 1);
  CHECK(world.fake.accessible(range.value + 8 * kPage - 1, 0));
  world.space.unmap(range, 8 * kPage);
  CHECK(world.fake.calls("cuMemUnmap") == 1);
  CHECK(world.fake.mapping_count() == 0);
  for (HandleId handle : handles) world.space.release_handle(handle);
  world.space.release_range(range, 8 * kPage);
  CHECK(world.fake.handle_count() == 0);
  CHECK(world.fake.range_count() == 0);
}

TEST_CASE("every call that the driver refuses leaves books and device as they were") {
  World world;
  VirtualMemorySpace& space = world.space;
  auto refuse = [&](const char* function) { world.fake.fail_at(1, 1, function); };
  refuse("cuMemAddressReserve");
  CHECK_THROWS_AS(space.reserve(4 * kPage), DeviceError);
  Address range = space.reserve(4 * kPage);
  refuse("cuMemCreate");
  CHECK_THROWS_AS(space.create_handle(kPage), DeviceError);
  HandleId handle = space.create_handle(kPage);
  refuse("cuMemMap");
  CHECK_THROWS_AS(space.map(range, kPage, handle), DeviceError);
  space.map(range, kPage, handle);
  refuse("cuMemSetAccess");
  CHECK_THROWS_AS(space.set_access(range, kPage), DeviceError);
  CHECK_FALSE(world.fake.accessible(range.value, 0));
  space.set_access(range, kPage);
  refuse("cuMemUnmap");
  CHECK_THROWS_AS(space.unmap(range, kPage), DeviceError);
  CHECK(world.fake.accessible(range.value, 0));
  refuse("cuMemUnmap");
  CHECK(space.move(handle, range, range + kPage, kPage) == MoveResult::kStayed);
  CHECK(world.fake.accessible(range.value, 0));
  refuse("cuMemMap");
  CHECK(space.move(handle, range, range + kPage, kPage) == MoveResult::kUnmapped);
  CHECK(world.fake.mapping_count() == 0);
  CHECK(world.fake.handle_count() == 1);
  space.map(range + kPage, kPage, handle);  // where it failed to go is free
  space.unmap(range + kPage, kPage);
  refuse("cuMemRelease");
  CHECK_THROWS_AS(space.release_handle(handle), DeviceError);
  space.check_invariants();
  CHECK(space.handle_bytes_total() == kPage);
  space.release_handle(handle);
  refuse("cuMemAddressFree");
  CHECK_THROWS_AS(space.release_range(range, 4 * kPage), DeviceError);
  space.release_range(range, 4 * kPage);
  space.check_invariants();
}

TEST_CASE("an error names the call, the size, the address and the device") {
  World world;
  Address range = world.space.reserve(kPage);
  HandleId handle = world.space.create_handle(kPage);
  world.fake.fail_at(1);
  std::string message;
  try {
    world.space.map(range, kPage, handle);
  } catch (const DeviceError& error) {
    message = error.what();
  }
  CHECK(message.find("cuMemMap of 64.00 KiB (65536 bytes) at 0x") == 0);
  CHECK(message.find("device 0: CUDA_ERROR_OUT_OF_MEMORY (2)") != std::string::npos);
}

TEST_CASE("a peer may access what is open now, and what is opened later") {
  World world;
  VirtualMemorySpace& space = world.space;
  Address range = space.reserve(4 * kPage);
  HandleId one = space.create_handle(kPage), two = space.create_handle(kPage);
  space.map(range, kPage, one);
  space.map(range + 2 * kPage, kPage, two);
  space.set_access(range, kPage);
  world.fake.fail_at(1, 1, "cuMemSetAccess");
  CHECK_THROWS_AS(space.add_peer(1), DeviceError);
  CHECK_FALSE(world.fake.accessible(range.value, 1));
  space.add_peer(1);
  space.add_peer(1);
  CHECK(world.fake.accessible(range.value, 1));
  CHECK_FALSE(world.fake.accessible((range + 2 * kPage).value, 1));
  space.set_access(range + 2 * kPage, kPage);
  CHECK(world.fake.accessible((range + 2 * kPage).value, 0));
  CHECK(world.fake.accessible((range + 2 * kPage).value, 1));
}

TEST_CASE("handles can be exported and read by network cards where the driver makes such ones") {
  test::FakeDriver fake;
  fake.granularity = kPage;
  const auto made = [&] {
    Driver driver(fake.functions(), 0);
    const VirtualMemorySpace space(driver);
    return std::pair(space.is_exportable(), space.is_rdma_capable());
  };
  CHECK(made() == std::pair(true, false));
  fake.rdma = true;
  CHECK(made() == std::pair(true, true));
  fake.refuses_rdma = true;  // whatever its attribute says
  CHECK(made() == std::pair(true, false));
  fake.exports = false;
  CHECK(made() == std::pair(false, false));
  CHECK(fake.handle_count() == 0);
}

TEST_CASE("a handle is exported by any address in its mapping") {
  World world;
  Address range = world.space.reserve(4 * kPage);
  HandleId handle = world.space.create_handle(2 * kPage);
  CHECK_THROWS_AS(world.space.export_handle_at(range), DeviceError);
  world.space.map(range + kPage, 2 * kPage, handle);
  auto exported = world.space.export_handle_at(range + (3 * kPage - 1));
  CHECK(exported.file > 0);
  CHECK(exported.start == range + kPage);
  CHECK(exported.bytes == 2 * kPage);
  CHECK_THROWS_AS(world.space.export_handle_at(range + 3 * kPage), DeviceError);
}

TEST_CASE("filling waits for the device's work and fills on the device") {
  World world;
  world.fake.make_current(1);
  Address range = world.space.reserve(kPage);
  world.space.fill(range + 128, 256, 0xFB);
  REQUIRE(world.fake.fills.size() == 1);
  CHECK(world.fake.fills[0].address == (range + 128).value);
  CHECK(world.fake.fills[0].bytes == 256);
  CHECK(world.fake.fills[0].value == 0xFB);
  CHECK(world.fake.calls("cuCtxSynchronize") == 2);
  CHECK(world.fake.current_device() == 1);
}

}  // namespace
}  // namespace tidepool::device
