// The contract of AddressSpace, to be run on every implementation: each check takes a World with a
// `space` whose granularity divides kPage, and `kHasMemory`, whether its bytes can be touched.
#pragma once

#include <cstring>
#include <vector>

#include "allocator/space/address_space.h"
#include "tests/support/catch.h"

namespace tidepool::test {

inline constexpr size_t kPage = 64 << 10;

// Memory is reserved, mapped, opened, moved and given back.
template <typename World>
void check_pages_move() {
  World world;
  AddressSpace& space = world.space;
  Address range = space.reserve(16 * kPage);
  CHECK(range.value % space.granularity() == 0);
  HandleId handle = space.create_handle(kPage);
  space.map(range, kPage, handle);
  space.set_access(range, kPage);
  space.fill(range, kPage, 0x5A);
  if (World::kHasMemory) {
    std::memset(range.pointer(), 1, kPage);
    CHECK(static_cast<char*>(range.pointer())[kPage - 1] == 1);
  }
  REQUIRE(space.move(handle, range, range + 5 * kPage, kPage) == MoveResult::kMoved);
  space.set_access(range + 5 * kPage, kPage);
  if (World::kHasMemory) std::memset((range + 5 * kPage).pointer(), 2, kPage);
  space.unmap(range + 5 * kPage, kPage);
  space.map(range + 2 * kPage, kPage, handle);
  space.set_access(range + 2 * kPage, kPage);
  if (World::kHasMemory) std::memset((range + 2 * kPage).pointer(), 3, kPage);
  space.unmap(range + 2 * kPage, kPage);
  space.release_handle(handle);
  space.release_range(range, 16 * kPage);
}

// Scattered handles serve one run.
template <typename World>
void check_scattered_handles() {
  World world;
  AddressSpace& space = world.space;
  Address range = space.reserve(32 * kPage);
  std::vector<HandleId> handles;
  for (size_t i = 0; i < 4; ++i) {
    handles.push_back(space.create_handle(kPage));
    space.map(range + 2 * i * kPage, kPage, handles[i]);
    space.set_access(range + 2 * i * kPage, kPage);
    if (World::kHasMemory) std::memset((range + 2 * i * kPage).pointer(), 7, kPage);
  }
  Address run = range + 16 * kPage;
  for (size_t i = 0; i < 4; ++i) {
    REQUIRE(space.move(handles[i], range + 2 * i * kPage, run + i * kPage, kPage) ==
            MoveResult::kMoved);
  }
  space.set_access(run, 4 * kPage);
  if (World::kHasMemory) {
    std::memset(run.pointer(), 9, 4 * kPage);
    CHECK(static_cast<char*>(run.pointer())[4 * kPage - 1] == 9);
  }
  // The places they came from can be used again.
  space.unmap(run, 2 * kPage);
  space.map(range, kPage, handles[0]);
  space.set_access(range, kPage);
  if (World::kHasMemory) std::memset(range.pointer(), 4, kPage);
  space.unmap(range, kPage);
  space.unmap(run + 2 * kPage, 2 * kPage);
  for (HandleId handle : handles) space.release_handle(handle);
  space.release_range(range, 32 * kPage);
}

// A call that breaks a rule is refused and changes nothing.
template <typename World>
void check_rules() {
  World world;
  AddressSpace& space = world.space;
  CHECK_THROWS_AS(space.reserve(kPage + 1), DeviceError);
  CHECK_THROWS_AS(space.create_handle(0), DeviceError);
  Address range = space.reserve(8 * kPage);
  HandleId a = space.create_handle(kPage);
  HandleId b = space.create_handle(kPage);
  CHECK_THROWS_AS(space.map(range + 1, kPage, a), DeviceError);          // not aligned
  CHECK_THROWS_AS(space.map(range + 8 * kPage, kPage, a), DeviceError);  // outside
  CHECK_THROWS_AS(space.map(range, 2 * kPage, a), DeviceError);          // not its size
  CHECK_THROWS_AS(space.set_access(range, kPage), DeviceError);          // nothing mapped
  CHECK_THROWS_AS(space.unmap(range, kPage), DeviceError);
  space.map(range, kPage, a);
  CHECK_THROWS_AS(space.map(range + kPage, kPage, a), DeviceError);  // mapped already
  CHECK_THROWS_AS(space.map(range, kPage, b), DeviceError);          // taken
  CHECK_THROWS_AS(space.release_handle(a), DeviceError);             // still mapped
  CHECK_THROWS_AS(space.release_range(range, 8 * kPage), DeviceError);
  CHECK_THROWS_AS(space.set_access(range, 2 * kPage), DeviceError);  // a gap
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

}  // namespace tidepool::test
