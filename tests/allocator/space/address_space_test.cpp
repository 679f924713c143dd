// The contract of AddressSpace, run on every implementation, the wrappers included.
#include "allocator/space/address_space.h"

#include <cstring>
#include <memory>

#include "allocator/space/private_host_space.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/address_space_contract.h"
#include "tests/support/aliased_host_space.h"
#include "tests/support/catch.h"
#include "tests/support/counting_space.h"
#include "tests/support/death.h"
#include "tests/support/faulty_space.h"

namespace tidepool {
namespace {

using test::kPage;

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

TEMPLATE_TEST_CASE("the contract of an address space", "", PrivateHost, AliasedHost, Simulated,
                   Faulty, Counting) {
  test::check_pages_move<TestType>();
  test::check_scattered_handles<TestType>();
  test::check_rules<TestType>();
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
