#include "allocator/blocks/shared_uses.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace tidepool {

StreamUses SharedUses::take(BlockId id) {
  auto found = uses_.find(id);
  TIDEPOOL_CHECK(blocks_[id].shared && found != uses_.end(), "(1) block at %zu",
                 blocks_[id].offset);
  StreamUses uses = std::move(found->second);
  uses_.erase(found);
  blocks_[id].shared = false;
  return uses;
}

std::vector<BlockId> SharedUses::passed() const {
  std::vector<BlockId> done;
  for (const auto& [id, uses] : uses_) {
    const Block& block = blocks_[id];
    if (block.state != BlockState::kAwaitingFree) continue;
    const bool passed = std::all_of(uses.begin(), uses.end(), [&](StreamUse use) {
      return use.stream == block.stream || clocks_.passed(use);
    });
    if (passed) done.push_back(id);
  }
  return done;
}

StreamUses SharedUses::awaited() const {
  StreamUses result;
  for (const auto& [id, uses] : uses_) {
    const Block& block = blocks_[id];
    if (block.state != BlockState::kAwaitingFree) continue;
    for (StreamUse use : uses) {
      if (use.stream != block.stream && !clocks_.passed(use)) add_use(result, use);
    }
  }
  return result;
}

}  // namespace tidepool
