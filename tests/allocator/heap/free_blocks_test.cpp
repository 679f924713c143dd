#include "allocator/heap/free_blocks.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

constexpr StreamId kOther{1}, kThird{2};

struct World {
  World() {
    for (StreamId stream : {kOther, kThird}) clocks.add_stream(stream);
    free.add_stream(kThird);
  }
  BlockId add(StreamId stream, size_t bytes, BlockState state = BlockState::kFree) {
    const BlockId id = blocks.append(bytes, Zone::kMedium);
    Block& block = blocks[id];
    block.stream = stream;
    block.state = state;
    block.freed_epoch = clocks.open(stream);
    if (state == BlockState::kCached) {
      free.bins(stream).push(id);
    } else {
      free.index(Zone::kMedium, stream).insert(id);
    }
    return id;
  }
  BlockId lendable(size_t bytes, bool ordered) const {
    return free.find_lendable(Zone::kMedium, bytes, StreamId::kDefault, ordered);
  }

  BlockList blocks{1 << 20};
  StreamClocks clocks;
  FreeBlocks free{blocks, clocks, 64, 4096};
};

TEST_CASE("the smallest block of another stream is lent, its own stream's never") {
  World world;
  world.add(StreamId::kDefault, 1024);
  world.add(kOther, 4096);
  const BlockId smaller = world.add(kThird, 2048);
  CHECK(world.lendable(1024, false) == smaller);
  CHECK(world.lendable(1024, true) == BlockId::kNone);
  world.clocks.note_passed({kThird, world.clocks.close(kThird)});
  CHECK(world.lendable(1024, true) == smaller);
  CHECK(world.lendable(8192, false) == BlockId::kNone);
  CHECK(world.free.find_lendable(Zone::kTiny, 64, StreamId::kDefault, false) == BlockId::kNone);
}

TEST_CASE("what is cached and what is indexed is counted over all streams") {
  World world;
  const BlockId first = world.add(StreamId::kDefault, 256, BlockState::kCached);
  const BlockId second = world.add(kThird, 512, BlockState::kCached);
  const BlockId indexed = world.add(kOther, 1024);
  world.free.check_invariants();
  CHECK(world.free.cached_bytes() == 768);
  CHECK(world.free.indexed_bytes() == 1024);
  std::vector<BlockId> seen;
  world.free.for_each(kOther, 64, [&](BlockId id) { seen.push_back(id); });
  CHECK(seen == std::vector<BlockId>{indexed});
  CHECK(world.free.pop_any_cached() == first);
  CHECK(world.free.pop_any_cached() == second);
  CHECK(world.free.pop_any_cached() == BlockId::kNone);
}

}  // namespace
}  // namespace tidepool
