// Heap: the range tiled by blocks, their states and the indices over free ones: all that the
// allocator knows of addresses, without pages, owners' prices or device calls.
// Each free block is ready on one stream: that stream's work may use it at once, others' only after
// its freed_epoch (StreamClocks). Neighbours that are ready on different streams are merged only
// where one of them has passed, and so may join any stream.
// Owns the blocks, the table and the indices over them; not the clocks. Not thread safe: the caller
// holds the device's lock.
// Invariants: (1) blocks tile the range (BlockList); no block crosses a zone's end; (2) the bins
// hold exactly the kCached blocks, the free index of each zone exactly its kFree ones, each those
// of one stream, and awaiting indices the kAwaitingFree ones; (3) no two neighbours in a zone are
// both kFree on one stream, or both kHole; (4) holes start and end at pages' ends; (5) the table
// leads from each allocated block's start to the block; (6) byte counts are sums; (7) uses are kept
// of exactly the shared blocks: of allocated ones the other streams, of awaiting ones all that has
// to pass. See docs/life-of-an-allocation.md.
#pragma once

#include <array>

#include "allocator/base/allocator_observer.h"
#include "allocator/heap/block_chain.h"
#include "allocator/heap/block_list.h"
#include "allocator/heap/block_table.h"
#include "allocator/heap/free_blocks.h"
#include "allocator/heap/free_index.h"
#include "allocator/heap/shared_uses.h"
#include "allocator/space/address_space.h"
#include "allocator/space/page_table.h"
#include "allocator/streams/stream_clocks.h"

namespace tidepool {

class Heap {
 public:
  // All powers of two but range_bytes, a multiple of 8 pages. Throws: DeviceError.
  Heap(size_t range_bytes, size_t page_bytes, size_t unit, size_t bins_limit_bytes,
       StreamClocks& clocks, const ZoneShares& eighths = kZoneEighths);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Hears of blocks that start and end to await streams. `base`: the address of offset 0.
  void set_observer(AllocatorObserver* observer, Address base) {
    observer_ = observer;
    base_ = base;
  }
  BlockView view(BlockId id) const;

  // A stream is known to the clocks; requests of it may come.
  void add_stream(StreamId stream) { free_.add_stream(stream); }

  // A kCached block of exactly `bytes` on the stream, now kAllocated, or kNone. O(1).
  BlockId take_cached(Zone zone, size_t bytes, StreamId stream = StreamId::kDefault);
  // Best fit: the smallest free block of the zone on the stream, its surplus cut off as
  // start_within() says; now kAllocated, or kNone.
  BlockId take_free(Zone zone, size_t bytes, StreamId stream = StreamId::kDefault,
                    End end = End::kLow);
  // The part of a kFree block, now kAllocated.
  BlockId take_from(BlockId id, size_t start, size_t bytes);
  // From now on blocks of a page and more touch few pages, at the price of gaps between them: what
  // shares no page with others can go without them.
  void spare_pages() { spares_pages_ = true; }
  // Where `bytes` go in a place that begins at `begin` and has `spare` more bytes: to that end of
  // it, or, with spare_pages(), to the nearest start of a page where they touch one page less.
  size_t start_within(size_t begin, size_t spare, size_t bytes, End end) const;
  // The smallest free block of the zone on another stream, or kNone; `ordered`: only one for which
  // `stream` need not wait. It stays where it is. O(streams).
  BlockId find_lendable(Zone zone, size_t bytes, StreamId stream, bool ordered) const {
    return free_.find_lendable(zone, bytes, stream, ordered);
  }
  // The smallest kAwaitingFree block of the zone, or kNone. It stays where it is.
  BlockId find_awaiting(Zone zone, size_t bytes) const {
    return awaiting_[static_cast<size_t>(zone)].best_fit(bytes);
  }
  // Calls visit(BlockId) for every kFree block on the stream of at least `bytes`, in no order.
  template <typename Visit>
  void for_each_free(StreamId stream, size_t bytes, Visit&& visit) const {
    free_.for_each(stream, bytes, visit);
  }
  // The allocated block that starts at `offset`, or kNone.
  BlockId allocated_at(size_t offset) const;

  // An allocated block becomes free on its stream: kCached if the bins accept it, else
  // merged with its neighbours, or kUnmerged while merging is held. If other streams use it, it
  // becomes kAwaitingFree.
  void release(BlockId id);
  // The allocated block is used on another stream too, until it is freed.
  void add_user(BlockId id, StreamId user);
  // kAwaitingFree blocks whose users have passed become free. True if there was one. O(awaiting).
  bool release_passed();
  // Merges neighbours on different streams of which one has passed by now. O(blocks).
  void merge_passed();
  // Of awaiting blocks: what has to pass on streams other than their own.
  StreamUses awaited() const { return uses_.awaited(); }
  // Of free blocks: the streams of which some could still be in use.
  StreamUses unpassed() const;
  // Merges every kCached and kUnmerged block. Returns true if there was one. Ends hold_merging().
  bool flush();
  // From now to flush(), no block is merged: ids of blocks stay good.
  void hold_merging() { merging_held_ = true; }

  // Makes one kClaimed block of [begin, end): of free and awaiting blocks and holes of one zone.
  // `first` is the block that contains `begin`. To `uses`, if given, is added what has to pass
  // before the bytes may be used.
  BlockId claim(BlockId first, size_t begin, size_t end, StreamUses* uses = nullptr);
  // A claimed block becomes free or awaiting blocks, holes and quarantined ones, as its pages are
  // and as `uses` have to pass; with none, it is ready on `stream` and on any other.
  void settle(BlockId id, const PageTable& pages, StreamId stream = StreamId::kDefault,
              const StreamUses& uses = {});
  // The first `bytes` of a claimed block, all accessible, become kAllocated; the rest settles.
  BlockId hand_out(BlockId id, size_t bytes, const PageTable& pages,
                   StreamId stream = StreamId::kDefault, const StreamUses& uses = {});

  Block& operator[](BlockId id) { return blocks_[id]; }
  const Block& operator[](BlockId id) const { return blocks_[id]; }
  const BlockList& blocks() const { return blocks_; }
  BlockTable& table() { return table_; }
  // Holes of a zone in no order, linked by link_next.
  BlockId first_hole(Zone zone) const { return holes_[static_cast<size_t>(zone)].first(); }

  bool zone_begins_at(size_t offset) const {
    size_t begin = 0;
    for (size_t share : eighths_) {
      if (begin == offset) return true;
      begin += share * (range_bytes_ / 8);
    }
    return false;
  }

  size_t range_bytes() const { return range_bytes_; }
  size_t page_bytes() const { return page_bytes_; }
  size_t unit() const { return unit_; }
  size_t allocated_bytes() const { return allocated_bytes_; }
  size_t requested_bytes() const { return requested_bytes_; }
  // Of kAwaitingFree blocks.
  size_t awaiting_bytes() const { return awaiting_bytes_; }
  // Records what the caller asked for, once the block is handed out.
  void set_requested(BlockId id, size_t bytes) {
    blocks_[id].requested_bytes = bytes;
    requested_bytes_ += bytes;
  }

  void check_invariants(const PageTable& pages) const;

 private:
  FreeIndex& index_of(const Block& block) { return free_.index(block.zone, block.stream); }
  bool has_passed(const Block& block) const {
    return clocks_.passed({block.stream, block.freed_epoch});
  }
  BlockId make_allocated(BlockId id);
  // A block in no list, with stream and epoch set, becomes free.
  void make_free(BlockId id);
  void await(BlockId id, StreamUses uses);
  [[gnu::noinline]] void release_shared(BlockId id);
  BlockId split(BlockId id, size_t bytes);
  void settle_accessible(BlockId id, StreamId stream, const StreamUses& uses);
  // Takes the part of a free or awaiting block or hole within [begin, end) out of all lists.
  BlockId take_part(BlockId id, size_t begin, size_t end, StreamUses* uses);
  // Takes the block out of the list that its state put it in.
  void unlink(BlockId id);
  // Puts a block whose state is set into the list of that state.
  void link(BlockId id);
  // A block in no list becomes kFree or kHole, and merges with neighbours of the same state.
  // Returns the block it is part of then.
  BlockId merge_as(BlockId id, BlockState state);
  // A block of another stream was joined, so that more may join. Returns as above.
  [[gnu::noinline]] BlockId merge_further(BlockId id);
  bool joins(BlockId id, BlockId neighbour) const;
  // The next block is added to this one; neither is in a list. True if their streams differed.
  bool absorb_next(BlockId id);
  void check_block(BlockId id, const PageTable& pages) const;
  void check_indices(size_t free_bytes, size_t cached_bytes, size_t awaiting_bytes) const;

  const size_t range_bytes_;
  const size_t page_bytes_;
  const size_t unit_;  // a power of two
  const ZoneShares eighths_;
  StreamClocks& clocks_;
  BlockList blocks_;
  BlockTable table_;
  FreeBlocks free_;
  std::array<FreeIndex, kZoneCount> awaiting_;
  SharedUses uses_;
  std::array<BlockChain, kZoneCount> holes_;
  BlockChain unmerged_;
  bool merging_held_ = false;
  bool spares_pages_ = false;
  size_t allocated_bytes_ = 0;
  size_t awaiting_bytes_ = 0;
  size_t requested_bytes_ = 0;
  AllocatorObserver* observer_ = nullptr;
  Address base_;
};

}  // namespace tidepool
