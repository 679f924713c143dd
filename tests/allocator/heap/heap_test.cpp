#include "allocator/heap/heap.h"

#include "tests/support/catch.h"
#include "tests/support/death.h"

namespace tidepool {
namespace {

constexpr size_t kPage = 64 << 10;

// A heap whose first pages of the transient zone are committed, as one free block.
struct World {
  explicit World(size_t committed = 8)
      : heap(64 * kPage, kPage, 64, 4 * kPage, clocks), pages(64, 64) {
    const BlockId hole = heap.first_hole(Zone::kTransient);
    begin = heap[hole].offset;
    const BlockId id = heap.claim(hole, begin, begin + committed * kPage);
    for (size_t page = 0; page < committed; ++page) commit(begin / kPage + page, true);
    heap.unclaim(id, pages);
    heap.check_invariants(pages);
  }
  void commit(size_t page, bool accessible) {
    pages.promise(1);
    pages.keep_promise();
    pages.set_mapped(page, HandleId{page + 1}, accessible);
  }
  BlockId take(size_t bytes) {
    BlockId id = heap.take_free(Zone::kTransient, bytes);
    REQUIRE(id != BlockId::kNone);
    heap.set_requested(id, bytes);
    return id;
  }

  StreamClocks clocks;
  Heap heap;
  PageTable pages;
  size_t begin = 0;
};

TEST_CASE("blocks are cut from the low end and merge again") {
  World world;
  BlockId a = world.take(3 * kPage);
  BlockId b = world.take(2 * kPage);
  BlockId c = world.take(3 * kPage);
  CHECK(world.heap[a].offset == world.begin);
  CHECK(world.heap[b].offset == world.begin + 3 * kPage);
  CHECK(world.heap.take_free(Zone::kTransient, 64) == BlockId::kNone);
  CHECK(world.heap.allocated_bytes() == 8 * kPage);
  for (BlockId id : {a, c, b}) {
    world.heap.release(id);
    world.heap.check_invariants(world.pages);
  }
  CHECK(world.heap[world.take(8 * kPage)].offset == world.begin);
}

TEST_CASE("small blocks are kept unmerged in bins until they are flushed") {
  World world;
  BlockId a = world.take(256);
  BlockId b = world.take(256);
  world.heap.release(a);
  world.heap.release(b);
  world.heap.check_invariants(world.pages);
  CHECK(world.heap.take_free(Zone::kTransient, 8 * kPage) == BlockId::kNone);
  CHECK(world.heap.take_cached(Zone::kTransient, 256) == b);
  world.heap.set_requested(b, 200);
  world.heap.release(b);
  CHECK(world.heap.flush());
  CHECK_FALSE(world.heap.flush());
  CHECK(world.heap.take_free(Zone::kTransient, 8 * kPage) != BlockId::kNone);
}

TEST_CASE("while merging is held, ids stay good") {
  World world;
  BlockId a = world.take(2 * kPage), b = world.take(2 * kPage), c = world.take(2 * kPage);
  world.heap.hold_merging();
  for (BlockId id : {a, b, c}) world.heap.release(id);
  CHECK(world.heap[b].offset == world.begin + 2 * kPage);
  CHECK(world.heap[b].state == BlockState::kUnmerged);
  BlockId claimed = world.heap.claim(a, world.begin + kPage, world.begin + 5 * kPage);
  CHECK(world.heap[claimed].bytes == 4 * kPage);
  world.heap.flush();
  BlockId served = world.heap.hand_out(claimed, 4 * kPage - 64, world.pages);
  CHECK(world.heap[served].offset == world.begin + kPage);
  world.heap.check_invariants(world.pages);
}

TEST_CASE("a claimed range becomes what its pages are") {
  World world(2);
  // Two committed pages and three of the hole behind them; one of these gets a page, one a page
  // without access.
  BlockId first = world.take(64);
  BlockId free = world.heap[first].next;
  BlockId claimed = world.heap.claim(free, world.heap[free].offset, world.begin + 5 * kPage);
  world.commit(world.begin / kPage + 2, true);
  world.commit(world.begin / kPage + 3, false);
  world.heap.unclaim(claimed, world.pages);
  world.heap.check_invariants(world.pages);
  CHECK(world.heap[world.take(3 * kPage - 64)].offset == world.begin + 64);
  size_t quarantined = 0;
  for (BlockId id = world.heap.blocks().first(); id != BlockId::kNone; id = world.heap[id].next) {
    if (world.heap[id].state == BlockState::kQuarantined) quarantined += world.heap[id].bytes;
  }
  CHECK(quarantined == kPage);
}

TEST_CASE("what is not the start of an allocated block is told apart") {
  World world;
  BlockId a = world.take(256);
  size_t offset = world.heap[a].offset;
  CHECK(world.heap.allocated_at(offset) == a);
  CHECK(world.heap.allocated_at(offset + 64) == BlockId::kNone);
  CHECK(world.heap.allocated_at(offset + 1) == BlockId::kNone);
  CHECK(world.heap.allocated_at(SIZE_MAX) == BlockId::kNone);
  world.heap.release(a);
  CHECK(world.heap.allocated_at(offset) == BlockId::kNone);
  CHECK(test::dies([&] { world.heap.release(a); }));
}

}  // namespace
}  // namespace tidepool
