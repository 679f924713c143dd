#include "allocator/blocks/shared_uses.h"

#include "tests/support/catch.h"
#include "tests/support/death.h"

namespace tidepool {
namespace {

constexpr StreamId kOwn{1}, kFirst{2}, kSecond{3};

struct World {
  World() {
    for (StreamId stream : {kOwn, kFirst, kSecond}) clocks.add_stream(stream);
    for (int k = 0; k < 2; ++k) {
      ids.push_back(blocks.append(1024, Zone::kTransient));
      blocks[ids.back()].stream = kOwn;
      blocks[ids.back()].state = BlockState::kAwaitingFree;
    }
  }

  BlockList blocks{2048};
  StreamClocks clocks;
  SharedUses uses{blocks, clocks};
  std::vector<BlockId> ids;
};

TEST_CASE("a block is shared from its first use until its uses are taken") {
  World world;
  world.uses.add(world.ids[0], {kFirst, 0});
  world.uses.add(world.ids[0], {kFirst, 2});
  world.uses.add(world.ids[0], {kSecond, 1});
  CHECK(world.uses.contains(world.ids[0]));
  CHECK(world.blocks[world.ids[0]].shared);
  world.uses.copy(world.ids[0], world.ids[1]);
  CHECK(world.uses.take(world.ids[0]) == StreamUses{{kFirst, 2}, {kSecond, 1}});
  CHECK_FALSE(world.uses.contains(world.ids[0]));
  CHECK_FALSE(world.blocks[world.ids[0]].shared);
  CHECK(world.blocks[world.ids[1]].shared);
  CHECK(test::dies([&] { world.uses.take(world.ids[0]); }));
}

TEST_CASE("a block has passed when all other streams have") {
  World world;
  const Epoch own = world.clocks.close(kOwn), first = world.clocks.close(kFirst);
  world.uses.set(world.ids[0], {{kOwn, own}, {kFirst, first}});
  world.uses.set(world.ids[1], {{kFirst, first}, {kSecond, world.clocks.close(kSecond)}});
  CHECK(world.uses.passed().empty());
  CHECK(world.uses.awaited() == StreamUses{{kFirst, first}, {kSecond, 1}});
  world.clocks.note_passed({kFirst, first});
  CHECK(world.uses.passed() == std::vector<BlockId>{world.ids[0]});
  CHECK(world.uses.awaited() == StreamUses{{kSecond, 1}});
  world.blocks[world.ids[0]].state = BlockState::kAllocated;
  CHECK(world.uses.passed().empty());
}

}  // namespace
}  // namespace tidepool
