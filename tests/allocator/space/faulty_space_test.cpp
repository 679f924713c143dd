#include "tests/support/faulty_space.h"

#include "allocator/space/simulated_space.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

TEST_CASE("the n-th call of a kind fails, and only that one") {
  SimulatedSpace inner(kPage);
  FaultySpace space(inner);
  Address range = space.reserve(8 * kPage);
  space.fail_at(DeviceCall::kCreateHandle, 2);
  HandleId first = space.create_handle(kPage);
  CHECK_FALSE(space.failed());
  CHECK_THROWS_AS(space.create_handle(kPage), DeviceError);
  CHECK(space.failed());
  CHECK_NOTHROW(space.create_handle(kPage));
  CHECK(space.calls(DeviceCall::kCreateHandle) == 3);
  CHECK(inner.handle_bytes_total() == 2 * kPage);

  space.fail_at(DeviceCall::kAny, 2, true);
  space.map(range, kPage, first);
  CHECK_THROWS_AS(space.set_access(range, kPage), DeviceError);
  CHECK_THROWS_AS(space.unmap(range, kPage), DeviceError);
  space.fail_never();
  CHECK_NOTHROW(space.set_access(range, kPage));
}

TEST_CASE("a move fails whole or half way") {
  SimulatedSpace inner(kPage);
  FaultySpace space(inner);
  Address range = space.reserve(8 * kPage);
  HandleId handle = space.create_handle(kPage);
  space.map(range, kPage, handle);
  space.fail_at(DeviceCall::kMove, 1);
  CHECK(space.move(handle, range, range + kPage, kPage) == MoveResult::kStayed);
  CHECK_NOTHROW(space.set_access(range, kPage));
  space.set_moves_fail_half_way(true);
  space.fail_at(DeviceCall::kMove, 1);
  CHECK(space.move(handle, range, range + kPage, kPage) == MoveResult::kUnmapped);
  CHECK_NOTHROW(space.map(range + kPage, kPage, handle));
}

TEST_CASE("a move that breaks a rule stays, also where it is to fail half way") {
  SimulatedSpace inner(kPage);
  FaultySpace space(inner);
  Address range = space.reserve(8 * kPage);
  HandleId handle = space.create_handle(kPage);
  HandleId other = space.create_handle(kPage);
  space.map(range, kPage, other);
  space.set_moves_fail_half_way(true);
  for (Address from : {Address{}, range}) {
    space.fail_at(DeviceCall::kMove, 1);
    CHECK(space.move(handle, from, range + kPage, kPage) == MoveResult::kStayed);
    CHECK_NOTHROW(space.set_access(range, kPage));  // the other handle is still there
  }
}

TEST_CASE("a hook sees every call before it happens") {
  SimulatedSpace inner(kPage);
  FaultySpace space(inner);
  std::string seen;
  space.set_before_call([&](DeviceCall call) { seen += std::string(name_of(call)) + " "; });
  Address range = space.reserve(kPage);
  HandleId handle = space.create_handle(kPage);
  space.map(range, kPage, handle);
  space.set_access(range, kPage);
  space.unmap(range, kPage);
  space.release_handle(handle);
  space.release_range(range, kPage);
  CHECK(seen == "reserve create_handle map set_access unmap release_handle release_range ");
}

}  // namespace
}  // namespace tidepool
