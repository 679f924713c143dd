#include "allocator/space/private_host_space.h"

#include <cstring>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/death.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

TEST_CASE("a forked child writes into copies of its own") {
  PrivateHostSpace space(kPage);
  Address range = space.reserve(4 * kPage);
  HandleId handle = space.create_handle(kPage);
  space.map(range, kPage, handle);
  space.set_access(range, kPage);
  std::memset(range.pointer(), 1, kPage);
  int status = test::status_of_child([&] {
    std::memset(range.pointer(), 2, kPage);
    return static_cast<int>(*static_cast<char*>(range.pointer()));
  });
  CHECK(status == 2);
  CHECK(*static_cast<char*>(range.pointer()) == 1);
  space.unmap(range, kPage);
  space.release_handle(handle);
  space.release_range(range, 4 * kPage);
}

TEST_CASE("pages given back are gone: they come back as zeros") {
  PrivateHostSpace space(kPage);
  Address range = space.reserve(2 * kPage);
  HandleId handle = space.create_handle(kPage);
  space.map(range, kPage, handle);
  space.set_access(range, kPage);
  std::memset(range.pointer(), 1, kPage);
  space.unmap(range, kPage);
  space.map(range, kPage, handle);
  space.set_access(range, kPage);
  CHECK(*static_cast<char*>(range.pointer()) == 0);
  space.unmap(range, kPage);
  space.release_handle(handle);
  space.release_range(range, 2 * kPage);
}

TEST_CASE("thousands of scattered moves stay within the kernel's limit on mappings") {
  constexpr size_t kPages = 4096;
  PrivateHostSpace space(kPage);
  CHECK(space.mapping_limit() >= kPages);
  Address range = space.reserve(4 * kPages * kPage);
  std::vector<HandleId> handles;
  for (size_t i = 0; i < kPages; ++i) {
    handles.push_back(space.create_handle(kPage));
    space.map(range + i * kPage, kPage, handles[i]);
  }
  space.set_access(range, kPages * kPage);
  size_t moved = 0;
  for (size_t i = 0; i < kPages; ++i) {
    Address to = range + (kPages + 2 * ((i * 1031) % kPages)) * kPage;
    moved += space.move(handles[i], range + i * kPage, to, kPage) == MoveResult::kMoved;
    space.set_access(to, kPage);
    *static_cast<char*>(to.pointer()) = 1;
  }
  CHECK(moved == kPages);
  space.check_invariants();
  for (size_t i = 0; i < kPages; ++i) {
    space.unmap(range + (kPages + 2 * i) * kPage, kPage);
  }
  for (HandleId handle : handles) space.release_handle(handle);
  space.release_range(range, 4 * kPages * kPage);
}

}  // namespace
}  // namespace tidepool
