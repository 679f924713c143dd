// SharedUses: for each block that other streams than its own use or have used, which streams, and
// up to where: of an allocated block the other streams that use it now, of an awaiting one all that
// has to pass before it is free.
// Owns the uses, and keeps Block::shared; not the blocks or the clocks. Not thread safe: the caller
// holds the device's lock.
// Invariant: (1) a block is shared exactly if there are uses of it.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "allocator/blocks/block_list.h"
#include "allocator/streams/stream_clocks.h"

namespace tidepool {

class SharedUses {
 public:
  SharedUses(BlockList& blocks, const StreamClocks& clocks) : blocks_(blocks), clocks_(clocks) {}

  bool contains(BlockId id) const { return uses_.contains(id); }
  // Adds one use of the block.
  void add(BlockId id, StreamUse use) {
    blocks_[id].shared = true;
    add_use(uses_[id], use);
  }
  // Replaces what is known of the block.
  void set(BlockId id, StreamUses uses) {
    blocks_[id].shared = true;
    uses_.insert_or_assign(id, std::move(uses));
  }
  // The part that was cut off a shared block has the same uses.
  void copy(BlockId from, BlockId to) { set(to, StreamUses(uses_.at(from))); }
  // The block's uses. Requires: it is shared.
  const StreamUses& of(BlockId id) const { return uses_.at(id); }
  // Forgets the block's uses and returns them. Requires: it is shared.
  StreamUses take(BlockId id);

  // The awaiting blocks whose uses have all passed, by id. O(shared blocks).
  std::vector<BlockId> passed() const;
  // What awaiting blocks wait for on streams other than their own. O(shared blocks).
  StreamUses awaited() const;

 private:
  BlockList& blocks_;
  const StreamClocks& clocks_;
  absl::btree_map<BlockId, StreamUses> uses_;  // ordered, because the order decides placement
};

}  // namespace tidepool
