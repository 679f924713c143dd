#include "allocator/blocks/block_walk.h"

#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

TEST_CASE("blocks are visited in order, however many came and went since the last walk") {
  test::Random random(6);
  constexpr size_t kBytes = 1 << 18;
  BlockList blocks(kBytes);
  BlockWalk walk;
  std::vector<BlockId> order = {blocks.append(kBytes, Zone::kTransient)};
  for (int round = 0; round < 300; ++round) {
    // Now many are split, now many absorbed: records come back in any order.
    const unsigned splits = random.chance(50) ? 80 : 20;
    for (size_t i = 0, changes = random.below(200); i < changes; ++i) {
      const size_t at = random.below(order.size());
      const auto after = order.begin() + static_cast<ptrdiff_t>(at) + 1;
      if (random.chance(splits)) {
        const size_t units = blocks[order[at]].bytes / 64;
        if (units < 2) continue;
        const size_t bytes = 64 * random.between(1, units - 1);
        order.insert(after, blocks.split(order[at], bytes));
      } else if (after != order.end()) {
        order.erase(after);
        blocks.absorb_next(order[at]);
      }
    }
    std::vector<BlockId> visited;
    walk.run(blocks, [&](BlockId id) { visited.push_back(id); });
    REQUIRE(visited == order);
    // From one in the midst of them on, up to another one.
    const size_t from = random.below(order.size());
    const size_t end = random.between(from, order.size() - 1);
    visited.clear();
    walk.run_from(order[from], blocks, [&](BlockId id) {
      if (id != order[end]) visited.push_back(id);
      return id != order[end];
    });
    const auto begin = order.begin();
    REQUIRE(visited ==
            std::vector(begin + static_cast<ptrdiff_t>(from), begin + static_cast<ptrdiff_t>(end)));
  }
}

}  // namespace
}  // namespace tidepool
