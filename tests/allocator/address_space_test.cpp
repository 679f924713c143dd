// The contract of AddressSpace, run on every implementation, the wrappers included.
#include "allocator/address_space.h"

#include <cstring>
#include <memory>

#include "allocator/aliased_host_space.h"
#include "allocator/faulty_space.h"
#include "allocator/private_host_space.h"
#include "allocator/simulated_space.h"
#include "tests/support/catch.h"
#include "tests/support/counting_space.h"
#include "tests/support/death.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

struct PrivateHost {
  static constexpr bool kHasMemory = true;
  PrivateHostSpace space{kPage};
};
struct AliasedHost {
  static constexpr bool kHasMemory = true;
  AliasedHostSpace space{kPage};
};
struct Simulated {
  static constexpr bool kHasMemory = false;
  SimulatedSpace space{kPage};
};
struct Faulty {
  static constexpr bool kHasMemory = true;
  AliasedHostSpace inner{kPage};
  FaultySpace space{inner};
};
struct Counting {
  static constexpr bool kHasMemory = true;
  PrivateHostSpace inner{kPage};
  test::CountingSpace space{inner, 64 * kPage};
};

#define EVERY_SPACE PrivateHost, AliasedHost, Simulated, Faulty, Counting

TEMPLATE_TEST_CASE("memory is reserved, mapped, opened, moved and given back", "", EVERY_SPACE) {
  TestType world;
  AddressSpace& space = world.space;
  Address range = space.reserve(16 * kPage);
  CHECK(range.value % kPage == 0);
  HandleId handle = space.create_handle(kPage);
  space.map(range, kPage, handle);
  space.set_access(range, kPage);
  space.fill(range, kPage, 0x5A);
  if (TestType::kHasMemory) {
    std::memset(range.pointer(), 1, kPage);
    CHECK(static_cast<char*>(range.pointer())[kPage - 1] == 1);
  }
  REQUIRE(space.move(handle, range, range + 5 * kPage, kPage) == MoveResult::kMoved);
  space.set_access(range + 5 * kPage, kPage);
  if (TestType::kHasMemory) std::memset((range + 5 * kPage).pointer(), 2, kPage);
  space.unmap(range + 5 * kPage, kPage);
  space.map(range + 2 * kPage, kPage, handle);
  space.set_access(range + 2 * kPage, kPage);
  if (TestType::kHasMemory) std::memset((range + 2 * kPage).pointer(), 3, kPage);
  space.unmap(range + 2 * kPage, kPage);
  space.release_handle(handle);
  space.release_range(range, 16 * kPage);
}

TEMPLATE_TEST_CASE("scattered handles serve one run", "", EVERY_SPACE) {
  TestType world;
  AddressSpace& space = world.space;
  Address range = space.reserve(32 * kPage);
  std::vector<HandleId> handles;
  for (size_t i = 0; i < 4; ++i) {
    handles.push_back(space.create_handle(kPage));
    space.map(range + 2 * i * kPage, kPage, handles[i]);
    space.set_access(range + 2 * i * kPage, kPage);
    if (TestType::kHasMemory) std::memset((range + 2 * i * kPage).pointer(), 7, kPage);
  }
  Address run = range + 16 * kPage;
  for (size_t i = 0; i < 4; ++i) {
    REQUIRE(space.move(handles[i], range + 2 * i * kPage, run + i * kPage, kPage) ==
            MoveResult::kMoved);
  }
  space.set_access(run, 4 * kPage);
  if (TestType::kHasMemory) {
    std::memset(run.pointer(), 9, 4 * kPage);
    CHECK(static_cast<char*>(run.pointer())[4 * kPage - 1] == 9);
  }
  // The places they came from can be used again.
  space.unmap(run, 2 * kPage);
  space.map(range, kPage, handles[0]);
  space.set_access(range, kPage);
  if (TestType::kHasMemory) std::memset(range.pointer(), 4, kPage);
  space.unmap(range, kPage);
  space.unmap(run + 2 * kPage, 2 * kPage);
  for (HandleId handle : handles) space.release_handle(handle);
  space.release_range(range, 32 * kPage);
}

TEMPLATE_TEST_CASE("a call that breaks a rule is refused and changes nothing", "", EVERY_SPACE) {
  TestType world;
  AddressSpace& space = world.space;
  CHECK_THROWS_AS(space.reserve(kPage + 1), DeviceError);
  CHECK_THROWS_AS(space.create_handle(0), DeviceError);
  Address range = space.reserve(8 * kPage);
  HandleId a = space.create_handle(kPage);
  HandleId b = space.create_handle(kPage);
  CHECK_THROWS_AS(space.map(range + 1, kPage, a), DeviceError);           // not aligned
  CHECK_THROWS_AS(space.map(range + 8 * kPage, kPage, a), DeviceError);   // outside
  CHECK_THROWS_AS(space.map(range, 2 * kPage, a), DeviceError);           // not its size
  CHECK_THROWS_AS(space.set_access(range, kPage), DeviceError);           // nothing mapped
  CHECK_THROWS_AS(space.unmap(range, kPage), DeviceError);
  space.map(range, kPage, a);
  CHECK_THROWS_AS(space.map(range + kPage, kPage, a), DeviceError);       // mapped already
  CHECK_THROWS_AS(space.map(range, kPage, b), DeviceError);               // taken
  CHECK_THROWS_AS(space.release_handle(a), DeviceError);                  // still mapped
  CHECK_THROWS_AS(space.release_range(range, 8 * kPage), DeviceError);
  CHECK_THROWS_AS(space.set_access(range, 2 * kPage), DeviceError);       // a gap
  space.map(range + kPage, kPage, b);
  CHECK(space.move(a, range, range + kPage, kPage) == MoveResult::kStayed);
  CHECK(space.move(a, range + kPage, range + 2 * kPage, kPage) == MoveResult::kStayed);
  CHECK(space.move(a, range, range + 9 * kPage, kPage) == MoveResult::kStayed);
  space.set_access(range, 2 * kPage);
  space.unmap(range, 2 * kPage);
  space.release_handle(a);
  CHECK_THROWS_AS(space.release_handle(a), DeviceError);
  CHECK_THROWS_AS(space.map(range, kPage, a), DeviceError);
  space.release_handle(b);
  CHECK_THROWS_AS(space.release_range(range, 4 * kPage), DeviceError);
  space.release_range(range, 8 * kPage);
}

TEMPLATE_TEST_CASE("bytes that are not open fault", "", PrivateHost, AliasedHost) {
  TestType world;
  AddressSpace& space = world.space;
  Address range = space.reserve(4 * kPage);
  HandleId handle = space.create_handle(kPage);
  auto faults = [](Address address) {
    return test::status_of_child([&] {
             *static_cast<volatile char*>(address.pointer()) = 1;
             return 0;
           }) != 0;
  };
  CHECK(faults(range));
  space.map(range, kPage, handle);
  CHECK(faults(range));
  space.set_access(range, kPage);
  CHECK_FALSE(faults(range));
  CHECK(faults(range + kPage));
  REQUIRE(space.move(handle, range, range + 2 * kPage, kPage) == MoveResult::kMoved);
  space.set_access(range + 2 * kPage, kPage);
  CHECK(faults(range));
  CHECK_FALSE(faults(range + 2 * kPage));
  space.unmap(range + 2 * kPage, kPage);
  CHECK(faults(range + 2 * kPage));
  space.release_handle(handle);
  space.release_range(range, 4 * kPage);
}

}  // namespace
}  // namespace tidepool
