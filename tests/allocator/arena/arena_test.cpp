#include "allocator/arena/arena.h"

#include "tests/support/arena_world.h"
#include "tests/support/catch.h"
#include "tests/support/death.h"
#include "tests/support/simulated_streams.h"

namespace tidepool {
namespace {

using test::kPage;

using World = test::ArenaWorld;

TEST_CASE("who refuses to be evicted is not asked again in the same search") {
  World world;
  const BlockId id = world.owned(kPage, 1);
  world.reclaimer.owners()[0]->refuses = true;
  ++world.arena.search_number;
  CHECK_FALSE(world.arena.evict(id));
  CHECK_FALSE(world.arena.may_go(world.arena.heap[id], StreamId::kDefault));
  world.reclaimer.owners()[0]->refuses = false;
  ++world.arena.search_number;
  CHECK(world.arena.may_go(world.arena.heap[id], StreamId::kDefault));
  CHECK(world.arena.evict(id));
  CHECK(world.arena.counts.evicted_bytes == kPage);
  world.arena.check_invariants();
}

TEST_CASE("a window is handed out only if all of its victims go") {
  World world;
  const BlockId first = world.owned(2 * kPage, 1);
  const BlockId second = world.owned(2 * kPage, 1);
  const size_t begin = world.arena.heap[first].offset;
  const WindowPlan plan{{first, second}, first, {begin, begin + 4 * kPage}, false, {}, 0};
  const Request request{.asked_bytes = 3 * kPage, .bytes = 3 * kPage};
  BlockId served{};
  world.reclaimer.owners()[1]->refuses = true;
  CHECK(world.arena.take_window(world.lock, request, plan, served) == Outcome::kNothing);
  CHECK(world.reclaimer.evicted.size() == 1);
  world.arena.check_invariants();
  world.reclaimer.owners()[1]->refuses = false;
  const BlockId free = world.arena.heap.blocks().first();
  CHECK(free != BlockId::kNone);
  const WindowPlan rest{{second}, first, {begin, begin + 4 * kPage}, true, {}, 0};
  CHECK(world.arena.take_window(world.lock, request, rest, served) == Outcome::kServed);
  // What is left over joins the free block at the low end.
  CHECK(world.arena.heap[served].offset == begin + kPage);
  world.arena.heap.set_requested(served, 3 * kPage);
  world.arena.check_invariants();
}

TEST_CASE("an address that is no block's start is named") {
  World world;
  const BlockId id = world.owned(kPage, 1);
  void* const address = world.arena.address_of(id).pointer();
  CHECK(world.arena.misuse(address).empty());
  CHECK(world.arena.misuse(static_cast<char*>(address) + 64).find("inside one of 65536 bytes") !=
        std::string::npos);
  int outside = 0;
  CHECK(world.arena.misuse(&outside).find("is not of this allocator's range") != std::string::npos);
  CHECK(test::dies([&] { world.arena.block_at(&outside); }));
}

TEST_CASE("a claimed block that no device call works on breaks an invariant") {
  World world;
  world.arena.free_block(world.owned(kPage, 1));
  world.arena.merge_free_blocks();
  const BlockId first = world.arena.heap.blocks().first();
  BlockId free = first;
  while (world.arena.heap[free].state != BlockState::kFree) free = world.arena.heap[free].next;
  const size_t begin = world.arena.heap[free].offset;
  const BlockId claimed = world.arena.heap.claim(free, begin, begin + kPage);
  CHECK(test::dies([&] { world.arena.check_invariants(); }));
  {
    CallsInFlight::Sequence sequence(world.arena.calls);
    world.arena.check_invariants();
  }
  world.arena.heap.unclaim(claimed, world.arena.pages);
  world.arena.check_invariants();
}

}  // namespace
}  // namespace tidepool
