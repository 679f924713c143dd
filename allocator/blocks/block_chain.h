// BlockChain: blocks in no order, linked through their link fields: any of them can be taken out at
// once.
// Owns nothing. Not thread safe.
#pragma once

#include "allocator/blocks/block_list.h"

namespace tidepool {

class BlockChain {
 public:
  explicit BlockChain(BlockList& blocks) : blocks_(&blocks) {}

  // The block that was pushed last, or kNone; the others follow by link_next.
  BlockId first() const { return first_; }

  // Requires: the block is in no chain, bin or index.
  void push(BlockId id) {
    Block& block = (*blocks_)[id];
    block.link_previous = BlockId::kNone;
    block.link_next = first_;
    if (first_ != BlockId::kNone) (*blocks_)[first_].link_previous = id;
    first_ = id;
  }

  // Requires: the block is in this chain.
  void remove(BlockId id) {
    Block& block = (*blocks_)[id];
    if (block.link_next != BlockId::kNone) {
      (*blocks_)[block.link_next].link_previous = block.link_previous;
    }
    if (block.link_previous != BlockId::kNone) {
      (*blocks_)[block.link_previous].link_next = block.link_next;
    } else {
      first_ = block.link_next;
    }
    block.link_previous = block.link_next = BlockId::kNone;
  }

 private:
  BlockList* blocks_;
  BlockId first_{};
};

}  // namespace tidepool
