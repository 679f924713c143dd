#include "allocator/heap/exact_bins.h"

#include "tests/support/catch.h"

namespace tidepool {
namespace {

struct Bins {
  Bins() : blocks(1 << 20), bins(blocks, 64, 4096) {
    for (int i = 0; i < 6; ++i) {
      ids.push_back(blocks.append(i < 4 ? 256 : 512, i == 3 ? Zone::kMedium : Zone::kTiny));
      blocks[ids.back()].state = BlockState::kCached;
    }
  }
  BlockList blocks;
  ExactBins bins;
  std::vector<BlockId> ids;
};

TEST_CASE("the last block in of a zone and size is the first out") {
  Bins world;
  for (BlockId id : world.ids) world.bins.push(id);
  world.bins.check_invariants();
  CHECK(world.bins.pop(Zone::kTiny, 256) == world.ids[2]);
  CHECK(world.bins.pop(Zone::kMedium, 256) == world.ids[3]);
  CHECK(world.bins.pop(Zone::kMedium, 256) == BlockId::kNone);
  CHECK(world.bins.pop(Zone::kTiny, 512) == world.ids[5]);
  CHECK(world.bins.pop(Zone::kTiny, 1 << 20) == BlockId::kNone);
  world.bins.remove(world.ids[0]);
  CHECK(world.bins.pop_any() == world.ids[1]);
  CHECK(world.bins.pop_any() == world.ids[4]);
  CHECK(world.bins.pop_any() == BlockId::kNone);
  CHECK(world.bins.bytes() == 0);
  world.bins.check_invariants();
}

TEST_CASE("bins take no more than their limit, and no large blocks") {
  Bins world;
  CHECK(world.bins.accepts(4096));
  world.bins.push(world.ids[0]);
  CHECK_FALSE(world.bins.accepts(4096));
  CHECK(world.bins.accepts(4096 - 256));
  ExactBins roomy(world.blocks, 64, SIZE_MAX / 2);
  CHECK(roomy.accepts(1023 * 64));
  CHECK_FALSE(roomy.accepts(1024 * 64));
}

}  // namespace
}  // namespace tidepool
