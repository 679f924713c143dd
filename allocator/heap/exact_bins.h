// ExactBins: free blocks by zone and exact size, last in first out. They stand in front of the free
// index: a block that is freed and asked for again at the same size is neither merged nor split.
// Owns nothing; links blocks through their link fields. Not thread safe.
// Invariants: (1) each listed block is kCached and in the bin of its zone and size; (2) a bit is
// set exactly if its bin is not empty; (3) bytes() is the sum, at most limit_bytes, over the bins.
#pragma once

#include <array>
#include <bit>

#include "allocator/blocks/block_list.h"

namespace tidepool {

class ExactBins {
 public:
  ExactBins(BlockList& blocks, size_t unit, size_t limit_bytes)
      : blocks_(blocks),
        unit_shift_(static_cast<unsigned>(std::countr_zero(unit))),
        limit_bytes_(limit_bytes) {}

  // True if a block of this size may be added now.
  bool accepts(size_t bytes) const {
    return (bytes >> unit_shift_) < kSizes && bytes_ + bytes <= limit_bytes_;
  }
  // Requires: accepts(size of the block).
  void push(BlockId id);
  // Takes out the block of that size which was pushed last; kNone if there is none.
  BlockId pop(Zone zone, size_t bytes);
  void remove(BlockId id);
  // Takes any block out; kNone if there is none.
  BlockId pop_any();

  size_t bytes() const { return bytes_; }
  void check_invariants() const;

 private:
  static constexpr size_t kSizes = 1024;  // sizes below 1024 units have a bin
  static constexpr size_t kBins = kZoneCount * kSizes;

  size_t bin_of(Zone zone, size_t bytes) const {
    return static_cast<size_t>(zone) * kSizes + (bytes >> unit_shift_);
  }
  void unlink(size_t bin, BlockId id);

  BlockList& blocks_;
  unsigned unit_shift_;
  size_t limit_bytes_;
  size_t bytes_ = 0;
  std::array<uint64_t, kBins / 64> words_{};
  std::array<BlockId, kBins> heads_{};
};

inline void ExactBins::push(BlockId id) {
  Block& block = blocks_[id];
  size_t bin = bin_of(block.zone, block.bytes);
  BlockId head = heads_[bin];
  block.link_previous = BlockId::kNone;
  block.link_next = head;
  if (head != BlockId::kNone) blocks_[head].link_previous = id;
  heads_[bin] = id;
  words_[bin / 64] |= uint64_t{1} << (bin % 64);
  bytes_ += block.bytes;
}

inline void ExactBins::unlink(size_t bin, BlockId id) {
  Block& block = blocks_[id];
  if (block.link_next != BlockId::kNone) {
    blocks_[block.link_next].link_previous = block.link_previous;
  }
  if (block.link_previous != BlockId::kNone) {
    blocks_[block.link_previous].link_next = block.link_next;
  } else {
    heads_[bin] = block.link_next;
    if (block.link_next == BlockId::kNone) words_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  }
  block.link_previous = block.link_next = BlockId::kNone;
  bytes_ -= block.bytes;
}

inline BlockId ExactBins::pop(Zone zone, size_t bytes) {
  if ((bytes >> unit_shift_) >= kSizes) return BlockId::kNone;
  size_t bin = bin_of(zone, bytes);
  BlockId id = heads_[bin];
  if (id != BlockId::kNone) unlink(bin, id);
  return id;
}

}  // namespace tidepool
