// Heap: the range tiled by blocks, their states and the indices over free ones: all that the
// allocator knows of addresses, without pages, owners' prices or device calls.
// Owns blocks, table, bins and free indices. Not thread safe: the caller holds the lock.
// Invariants: (1) blocks tile the range (BlockList); no block crosses a zone's end; (2) the bins
// hold exactly the kCached blocks, the free index of each zone exactly its kFree ones; (3) no two
// neighbours in a zone are both kFree or both kHole; (4) holes start and end at pages' ends;
// (5) the table leads from each allocated block's start to the block; (6) byte counts are sums.
// See docs/life-of-an-allocation.md.
#pragma once

#include <array>

#include "allocator/block_list.h"
#include "allocator/block_table.h"
#include "allocator/exact_bins.h"
#include "allocator/free_index.h"
#include "allocator/page_table.h"

namespace tidepool {

class Heap {
 public:
  // All powers of two but range_bytes, a multiple of 8 handles. Throws: DeviceError.
  Heap(size_t range_bytes, size_t handle_bytes, size_t unit, size_t bins_limit_bytes);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // A kCached block of exactly `bytes`, now kAllocated, or kNone. O(1).
  BlockId take_cached(Zone zone, size_t bytes);
  // Best fit: the smallest free block of the zone, its surplus cut off; now kAllocated, or kNone.
  BlockId take_free(Zone zone, size_t bytes);
  // The allocated block that starts at `offset`. Aborts where there is none: the caller's bug.
  BlockId allocated_at(size_t offset) const;

  // An allocated or awaiting block becomes free: kCached if the bins accept it, else merged with
  // its neighbours, or kUnmerged while merging is held.
  void release(BlockId id);
  void set_awaiting(BlockId id);
  // Merges every kCached and kUnmerged block. Returns true if there was one. Ends hold_merging().
  bool flush();
  // From now to flush(), no block is merged: ids of blocks stay good.
  void hold_merging() { merging_held_ = true; }

  // Makes one kClaimed block of [begin, end): of free blocks and holes of one zone. `first` is the
  // block that contains `begin`.
  BlockId claim(BlockId first, size_t begin, size_t end);
  // A claimed block becomes free blocks, holes and quarantined ones, as its pages are.
  void settle(BlockId id, const PageTable& pages);
  // The first `bytes` of a claimed block, all accessible, become kAllocated; the rest settles.
  BlockId hand_out(BlockId id, size_t bytes, const PageTable& pages);

  Block& operator[](BlockId id) { return blocks_[id]; }
  const Block& operator[](BlockId id) const { return blocks_[id]; }
  const BlockList& blocks() const { return blocks_; }
  BlockTable& table() { return table_; }
  // Holes of a zone in no order, linked by link_next.
  BlockId first_hole(Zone zone) const { return holes_[static_cast<size_t>(zone)]; }

  bool zone_begins_at(size_t offset) const {
    size_t begin = 0;
    for (size_t share : kZoneEighths) {
      if (begin == offset) return true;
      begin += share * (range_bytes_ / 8);
    }
    return false;
  }

  size_t range_bytes() const { return range_bytes_; }
  size_t handle_bytes() const { return handle_bytes_; }
  size_t unit() const { return unit_; }
  size_t allocated_bytes() const { return allocated_bytes_; }
  size_t requested_bytes() const { return requested_bytes_; }
  // Records what the caller asked for, once the block is handed out.
  void set_requested(BlockId id, size_t bytes) {
    blocks_[id].requested_bytes = bytes;
    requested_bytes_ += bytes;
  }

  void check_invariants(const PageTable& pages) const;

 private:
  FreeIndex& index_of(Zone zone) { return free_[static_cast<size_t>(zone)]; }
  BlockId make_allocated(BlockId id);
  // Takes the block out of the list that its state put it in.
  void unlink(BlockId id);
  // Puts a block whose state is set into the list of that state.
  void link(BlockId id);
  // A block in no list becomes kFree or kHole, and merges with neighbours of the same state.
  void merge_as(BlockId id, BlockState state);
  bool same_kind(BlockId id, BlockState state, Zone zone) const;
  void push_list(BlockId& head, BlockId id);
  void remove_from_list(BlockId& head, BlockId id);
  void check_block(BlockId id, const PageTable& pages) const;

  const size_t range_bytes_;
  const size_t handle_bytes_;
  const size_t unit_;
  BlockList blocks_;
  BlockTable table_;
  ExactBins bins_;
  std::array<FreeIndex, kZoneCount> free_;
  std::array<BlockId, kZoneCount> holes_{};
  BlockId unmerged_{};
  bool merging_held_ = false;
  size_t allocated_bytes_ = 0;
  size_t requested_bytes_ = 0;
};

}  // namespace tidepool
