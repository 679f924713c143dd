#include "allocator/blocks/block_list.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

TEST_CASE("splitting and absorbing keep the tiling") {
  test::Random random(3);
  constexpr size_t kBytes = 1 << 20;
  BlockList blocks(kBytes);
  std::vector<BlockId> ids = {blocks.append(kBytes, Zone::kTransient)};
  for (int i = 0; i < 20000; ++i) {
    BlockId id = ids[random.below(ids.size())];
    if (random.chance(55)) {
      if (blocks[id].bytes >= 128) {
        ids.push_back(blocks.split(id, 64 * random.between(1, blocks[id].bytes / 64 - 1)));
      }
    } else if (BlockId next = blocks[id].next; next != BlockId::kNone) {
      BlockRef gone = blocks.ref(next);
      blocks.absorb_next(id);
      CHECK_FALSE(blocks.current(gone));
      ids.erase(std::find(ids.begin(), ids.end(), next));
    }
    if (i % 500 == 0) blocks.check_invariants();
  }
  blocks.check_invariants();
  CHECK(blocks.count() == ids.size());
}

}  // namespace
}  // namespace tidepool
