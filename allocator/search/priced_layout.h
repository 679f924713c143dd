// PricedLayout: the blocks of an arena in address order, as one search for room sees them,
// with sums from the start of the list, so that what a run of blocks holds or costs takes two
// reads. Made anew for each search, because prices change all the time. Not thread safe.
// Invariants: (1) the first block starts at offset 0, and each other one where the one before it
// ends; (2) the list of barriers holds exactly the barriers and holes, in order; (3) least_price()
// is the price of a priced block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "allocator/blocks/block.h"

namespace tidepool {

enum class RoomKind : uint8_t {
  kFree,
  kEvictable,
  kMovable,  // its contents are better moved elsewhere than evicted
  kBarrier,  // it has to stay where it is
  kHole,     // it has no pages, and is a barrier for windows, too
};

// Whether a block of this kind has a price, for which its bytes can be had.
constexpr bool is_priced(RoomKind kind) {
  return kind == RoomKind::kEvictable || kind == RoomKind::kMovable;
}

// One block as a search sees it.
struct RoomItem {
  size_t offset = 0;
  size_t bytes = 0;
  uint64_t price = 0;  // 0 unless is_priced(); at most Price::kGreatest
  BlockId block{};
  RoomKind kind = RoomKind::kBarrier;

  size_t end() const { return offset + bytes; }
};

class PricedLayout {
 public:
  PricedLayout() { start(0); }
  explicit PricedLayout(std::span<const RoomItem> items);

  // Empties the list; up to `blocks` can be added then.
  void start(size_t blocks);
  // Adds a block at the end. The offset of `item` does not matter.
  void add(const RoomItem& item);

  size_t size() const { return size_; }
  RoomItem operator[](size_t index) const {
    const Detail& detail = details_[index];
    return {offset(index), bytes(index, index + 1), price(index, index + 1), detail.block,
            detail.kind};
  }
  RoomKind kind(size_t index) const { return details_[index].kind; }
  // Where the block at `index` starts; for size(), where the last block ends.
  size_t offset(size_t index) const { return offsets_[index]; }
  // The index of the block that contains `offset`. Requires: there is one. O(log blocks).
  size_t index_at(size_t offset) const;

  // Sums over the blocks from `first` up to, but without, `stop`. Blocks that are moved count as
  // evicted.
  size_t bytes(size_t first, size_t stop) const { return offsets_[stop] - offsets_[first]; }
  uint64_t price(size_t first, size_t stop) const { return prices_[stop] - prices_[first]; }
  size_t evicted_bytes(size_t first, size_t stop) const {
    return details_[stop].evicted_bytes - details_[first].evicted_bytes;
  }
  size_t evicted_blocks(size_t first, size_t stop) const {
    return details_[stop].evicted_blocks - details_[first].evicted_blocks;
  }
  // The least price of a priced block; UINT64_MAX if there is none.
  uint64_t least_price() const { return least_price_; }
  // Indices of the barriers and holes from `first` up to, but without, `stop`, ascending.
  // O(log barriers).
  std::span<const uint32_t> barriers(size_t first, size_t stop) const;

  void check_invariants() const;

 private:
  // What is kept of each block beside the sums that comparisons of prices need.
  struct Detail {
    size_t evicted_bytes = 0;  // sums over the blocks before this one
    uint32_t evicted_blocks = 0;
    BlockId block{};
    RoomKind kind = RoomKind::kBarrier;
  };

  // Entry k of a list of sums is over the blocks before block k; entry size_ is over all. The sums
  // may wrap around, but their differences do not.
  size_t size_ = 0;
  uint64_t least_price_ = UINT64_MAX;
  std::vector<size_t> offsets_;
  std::vector<uint64_t> prices_;
  std::vector<Detail> details_;
  std::vector<uint32_t> barriers_;
};

}  // namespace tidepool
