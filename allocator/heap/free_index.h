// FreeIndex: blocks of one state, such as the free ones of a zone and stream, by size. Sizes below
// 64 units have a class each, and larger ones fall into 32 classes for each doubling. Each class
// has a list, and a two-level bitmap says which lists are not empty. best_fit() finds the smallest
// block that fits, exactly; among blocks of that size, the one with the lowest address of a few.
// Owns nothing; links blocks through their link fields. Not thread safe.
// Invariants: (1) each listed block is in that state and in the list of its class; (2) a bitmap's
// bit is set exactly if what it stands for is not empty; (3) count() and bytes() are sums over the
// lists.
#pragma once

#include <array>

#include "allocator/blocks/block_list.h"

namespace tidepool {

class FreeIndex {
 public:
  // `unit`: block sizes are multiples of this power of two.
  FreeIndex(BlockList& blocks, size_t unit, BlockState state = BlockState::kFree);

  void insert(BlockId id);
  void remove(BlockId id);
  // Returns the smallest block of at least `bytes`, or kNone. The block stays in the index.
  BlockId best_fit(size_t bytes) const;

  // Calls visit(BlockId) for every block of at least `bytes`, which must not change the index.
  template <typename Visit>
  void for_each(size_t bytes, Visit&& visit) const {
    for (size_t index = next_class(class_of(bytes)); index < kClasses;
         index = next_class(index + 1)) {
      for (BlockId id = heads_[index]; id != BlockId::kNone; id = blocks_[id].link_next) {
        if (blocks_[id].bytes >= bytes) visit(id);
      }
    }
  }

  size_t count() const { return count_; }
  size_t bytes() const { return bytes_; }
  void check_invariants() const;

 private:
  static constexpr size_t kWords = 32;
  static constexpr size_t kClasses = kWords * 64;
  // How many blocks of the best size are looked at for the lowest address.
  static constexpr int kSameSizeLooks = 8;

  size_t class_of(size_t bytes) const;
  // The least size of a block in the class.
  size_t least_bytes_of(size_t index) const;
  BlockId best_in(size_t index, size_t bytes) const;
  // The first nonempty class from `from` on, or kClasses.
  size_t next_class(size_t from) const;

  BlockList& blocks_;
  unsigned unit_shift_;
  BlockState state_;
  uint64_t summary_ = 0;
  std::array<uint64_t, kWords> words_{};
  std::array<BlockId, kClasses> heads_{};
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tidepool
