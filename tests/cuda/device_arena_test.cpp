#include "cuda/device_arena.h"

#include <optional>

#include "tests/cuda/fake_driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_reclaimer.h"

namespace tidepool::device {
namespace {

constexpr size_t kPage = size_t{2} << 20;

AllocatorConfig config(size_t pages) {
  AllocatorConfig config;
  config.budget_bytes = pages * kPage;
  config.page_bytes = kPage;
  config.alignment = 1;  // the arena knows better
  return config;
}

TEST_CASE("an arena serves a device within its budget, from virtual memory or without") {
  const bool virtual_memory = GENERATE(true, false);
  test::FakeDriver fake(2);
  fake.virtual_memory = virtual_memory;
  {
    DeviceArena arena(fake.functions(), 1, config(8));
    const driver::Stream stream = fake.add_stream(1);
    void* first = arena.allocate(100, stream);
    void* second = arena.allocate(100, nullptr);
    // The driver promises 256 bytes for its own allocations; distances are multiples of ours.
    const size_t alignment = virtual_memory ? DeviceArena::kAlignment : 256;
    CHECK(reinterpret_cast<uintptr_t>(first) % alignment == 0);
    CHECK(reinterpret_cast<uintptr_t>(second) % alignment == 0);
    CHECK(arena.owns_block(first));
    CHECK(arena.contains(static_cast<char*>(first) + 1));
    CHECK_FALSE(arena.owns_block(static_cast<char*>(first) + 1));
    CHECK(arena.block_bytes(first) >= 100);
    CHECK_THROWS_AS(arena.allocate(8 * kPage, stream), OutOfMemory);
    arena.free(first);
    arena.free_checked(second, 100, nullptr);
    CHECK_FALSE(arena.owns_block(first));
    CHECK(arena.allocator().statistics().allocated_bytes == 0);
  }
  CHECK(fake.handle_count() == 0);
  CHECK(fake.allocation_count() == 0);
  CHECK(fake.event_count() == 0);
}

TEST_CASE("a block that another stream uses is not handed to a third before that") {
  test::FakeDriver fake;
  DeviceArena arena(fake.functions(), 0, config(8));
  const driver::Stream owner = fake.add_stream(0);
  const driver::Stream user = fake.add_stream(0);
  CHECK(arena.stream_of(StreamId::kDefault) == nullptr);
  void* block = arena.allocate(8 * kPage, owner);  // all there is
  fake.launch(user, 0);
  arena.record_stream(block, user);
  arena.free(block);
  fake.waits.clear();
  CHECK(arena.allocate(8 * kPage, owner) == block);
  REQUIRE(fake.waits.size() == 1);
  CHECK(fake.waits[0].stream == owner);
  arena.free(block);
}

TEST_CASE("a peer may access what is mapped and what will be, and the arena waits for its work") {
  test::FakeDriver fake(2);
  DeviceArena arena(fake.functions(), 0, config(16));
  void* before = arena.allocate(kPage, nullptr);
  CHECK_FALSE(fake.accessible(reinterpret_cast<uintptr_t>(before), 1));
  arena.add_peer(1);
  CHECK(fake.accessible(reinterpret_cast<uintptr_t>(before), 1));
  void* after = arena.allocate(3 * kPage, nullptr);
  CHECK(fake.accessible(reinterpret_cast<uintptr_t>(after), 1));
  arena.free(before);
  arena.free(after);
  arena.synchronize();
  CHECK(fake.calls("cuCtxSynchronize") == 1);
}

// A budget of 64 pages, full of blocks that may be evicted: two in the middle of the large
// transient ones for the lowest price.
struct FullArena {
  explicit FullArena(bool virtual_memory) {
    fake.virtual_memory = virtual_memory;
    arena.emplace(fake.functions(), 0, config(64));
    arena->allocator().set_reclaimer(&reclaimer);
    for (uint64_t i = 0; i < 16; ++i) own(4 * kPage, i == 3 || i == 5 ? 1 : 1000);
  }
  tidepool::test::FakeOwner* own(size_t bytes, uint64_t price) {
    void* address = arena->allocate(bytes, nullptr);
    tidepool::test::FakeOwner* owner = reclaimer.add(address, bytes, price);
    DeviceLock lock(arena->mutex());
    arena->allocator().set_owner(address, owner);
    return owner;
  }
  // Whether a request is served by whatever evictions it takes.
  bool has_room(size_t bytes) {
    try {
      arena->free(arena->allocate(bytes, nullptr));
      return true;
    } catch (const OutOfMemory&) {
      return false;
    }
  }

  tidepool::test::FakeReclaimer reclaimer;
  test::FakeDriver fake;
  std::optional<DeviceArena> arena;
};

TEST_CASE("workspaces asked for late lie together and cut nothing, where they are known as such") {
  const bool virtual_memory = GENERATE(true, false);
  for (const PlacementHint hint : {PlacementHint::kLongLived, PlacementHint::kTransient}) {
    FullArena full(virtual_memory);
    DeviceArena& arena = *full.arena;
    CHECK(arena.allocator().committed_bytes() == 64 * kPage);
    constexpr size_t kWorkspace = 3 * kPage / 2;
    auto* first = static_cast<char*>(arena.allocate(kWorkspace, nullptr, hint));
    full.own(5 * kPage / 2, 1000);
    auto* second = static_cast<char*>(arena.allocate(kWorkspace, nullptr, hint));
    arena.allocator().check_invariants();
    CHECK(arena.allocator().committed_bytes() <= 64 * kPage);
    const bool known = hint == PlacementHint::kLongLived;
    if (virtual_memory) {
      // Three pages in all, or two for each.
      CHECK((second == first + kWorkspace) == known);
      CHECK(full.has_room(61 * kPage) == known);
      CHECK(full.has_room(60 * kPage));
    } else {
      // The part of the range for large transient blocks is whole, or is not.
      CHECK(full.has_room(32 * kPage) == known);
    }
    arena.free(first);
    arena.free(second);
    arena.allocator().check_invariants();
  }
}

}  // namespace
}  // namespace tidepool::device
