#include "tests/support/aliased_host_space.h"

#include <cstring>

#include "tests/support/catch.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

TEST_CASE("a handle keeps its contents where it is mapped next, until it is released") {
  AliasedHostSpace space(kPage);
  Address range = space.reserve(4 * kPage);
  HandleId handle = space.create_handle(kPage);
  space.map(range, kPage, handle);
  space.set_access(range, kPage);
  std::memset(range.pointer(), 6, kPage);
  space.unmap(range, kPage);
  space.map(range + 2 * kPage, kPage, handle);
  space.set_access(range + 2 * kPage, kPage);
  CHECK(static_cast<char*>((range + 2 * kPage).pointer())[100] == 6);
  REQUIRE(space.move(handle, range + 2 * kPage, range + kPage, kPage) == MoveResult::kMoved);
  space.set_access(range + kPage, kPage);
  CHECK(static_cast<char*>((range + kPage).pointer())[100] == 6);
  space.unmap(range + kPage, kPage);
  space.release_handle(handle);
  space.check_invariants();

  HandleId fresh = space.create_handle(kPage);  // the same piece of the file, emptied
  space.map(range, kPage, fresh);
  space.set_access(range, kPage);
  CHECK(*static_cast<char*>(range.pointer()) == 0);
  space.check_invariants();
  space.unmap(range, kPage);
  space.release_handle(fresh);
  space.release_range(range, 4 * kPage);
}

}  // namespace
}  // namespace tidepool
