// The address spaces of the host, and the one that injects faults, against the model of pages.
#include "allocator/space/private_host_space.h"
#include "allocator/space/simulated_space.h"
#include "tests/support/address_space_model.h"
#include "tests/support/aliased_host_space.h"
#include "tests/support/catch.h"
#include "tests/support/faulty_space.h"

namespace tidepool {
namespace {

using test::SpaceContents;

constexpr size_t kPage = 4096;

struct FaultyWorld {
  static constexpr bool kMoves = true;

  explicit FaultyWorld(AddressSpace& inner) : faulty(inner) {}
  AddressSpace& space() { return faulty; }
  void fail_at(size_t n, bool half_way) {
    faulty.set_moves_fail_half_way(half_way);
    faulty.fail_at(DeviceCall::kAny, n);
  }
  bool take_failure() {
    const bool failed = faulty.failed();
    if (failed) faulty.fail_at(DeviceCall::kAny, SIZE_MAX / 2);
    return failed;
  }

  FaultySpace faulty;
};

struct Simulated {
  SimulatedSpace inner{kPage, 7};
};
struct SimulatedWorld : private Simulated, FaultyWorld {
  static constexpr bool kHasMemory = false;
  static constexpr size_t kMappings = 7;
  SimulatedWorld() : FaultyWorld(inner) {}
  void check(const SpaceContents& contents) {
    inner.check_invariants();
    test::expect_equal(inner.handle_bytes_total(), contents.handle_bytes);
    for (const auto& [page, accessible] : contents.pages) {
      test::expect_equal(inner.accessible(page, kPage), accessible);
    }
  }
};

template <typename Space>
struct Host {
  Space inner{kPage};
};
template <typename Space>
struct HostWorld : private Host<Space>, FaultyWorld {
  static constexpr bool kHasMemory = true;
  static constexpr size_t kMappings = SIZE_MAX;
  HostWorld() : FaultyWorld(this->inner) {}
  void check(const SpaceContents&) { this->inner.check_invariants(); }
};

using SimulatedModel = test::AddressSpaceModel<SimulatedWorld, kPage>;
using PrivateModel = test::AddressSpaceModel<HostWorld<PrivateHostSpace>, kPage>;
using AliasedModel = test::AddressSpaceModel<HostWorld<AliasedHostSpace>, kPage>;

TEST_CASE("simulated memory does what the model of pages says") {
  test::fuzz<SimulatedModel>("SimulatedModel");
}
TEST_CASE("private host memory does what the model of pages says") {
  test::fuzz<PrivateModel>("PrivateModel");
}
TEST_CASE("aliased host memory does what the model of pages says") {
  test::fuzz<AliasedModel>("AliasedModel");
}

}  // namespace
}  // namespace tidepool
