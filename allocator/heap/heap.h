// Heap: the blocks that tile the range, their states, and the indices over free ones. It is all
// that the allocator knows of addresses; it knows nothing of prices, and makes no device call. Each
// free block is ready on one stream: that stream's work may use it at once, work of other streams
// only after its freed_epoch has passed (StreamClocks). Neighbours that are ready on different
// streams are merged only if one of them has passed, which may then join any stream.
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
#include "allocator/blocks/block_chain.h"
#include "allocator/blocks/block_list.h"
#include "allocator/blocks/block_table.h"
#include "allocator/blocks/shared_uses.h"
#include "allocator/heap/free_blocks.h"
#include "allocator/heap/free_index.h"
#include "allocator/space/address_space.h"
#include "allocator/space/page_table.h"
#include "allocator/streams/stream_clocks.h"

namespace tidepool {

class Heap {
 public:
  // Sizes are powers of two, except range_bytes, which is a multiple of 8 pages. Throws:
  // DeviceError.
  Heap(size_t range_bytes, size_t page_bytes, size_t unit, size_t bins_limit_bytes,
       StreamClocks& clocks, const ZoneShares& eighths = Placement().eighths);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Sets who hears of blocks that start or end to await streams. `base`: the address of offset 0.
  void set_observer(AllocatorObserver* observer, Address base) {
    observer_ = observer;
    base_ = base;
  }
  BlockView view(BlockId id) const;

  // Makes room for a stream's free blocks, before its first request.
  void add_stream(StreamId stream) { free_.add_stream(stream); }

  // Allocates a kCached block of exactly `bytes` on the stream; kNone if there is none. O(1).
  BlockId take_cached(Zone zone, size_t bytes, StreamId stream = StreamId::kDefault);
  // Allocates the smallest free block of the zone on the stream that is large enough, its surplus
  // cut off as start_within() says; kNone if there is none.
  BlockId take_free(Zone zone, size_t bytes, StreamId stream = StreamId::kDefault,
                    End end = End::kLow);
  // Allocates a part of a kFree block.
  BlockId take_from(BlockId id, size_t start, size_t bytes);
  // Has blocks of a page and more touch few pages from now on, at the price of gaps between them: a
  // block that shares no page with others can be evicted for its pages alone.
  void spare_pages() { spares_pages_ = true; }
  // Returns where a block of `bytes` starts in a free place that begins at `begin` and is larger by
  // `spare`: at the given end, or, after spare_pages(), at the nearest start of a page, if the
  // block touches one page less there.
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
  // Returns the allocated block that starts at `offset`, or kNone.
  BlockId allocated_at(size_t offset) const;

  // Frees an allocated block. It becomes kAwaitingFree if other streams use it. Otherwise it is
  // free on its stream: kUnmerged while merging is held, else kCached if the bins accept it, else
  // merged with its neighbours.
  void release(BlockId id);
  // Notes that another stream uses the allocated block, too, until it is freed.
  void add_user(BlockId id, StreamId user);
  // Notes that another stream uses the allocated block, too, but no longer than `use` says.
  void add_user(BlockId id, StreamUse use);
  // Streams whose work so far is all that uses the allocated block: what comes after it on all of
  // these streams comes after every use. Its own stream is among them.
  std::vector<StreamId> users(BlockId id) const;
  // Frees kAwaitingFree blocks whose users have passed. True if there was one. O(shared blocks).
  bool release_passed();
  // Merges free neighbours on different streams of which one has passed by now. O(blocks).
  void merge_passed();
  // What awaiting blocks wait for on streams other than their own.
  StreamUses awaited() const { return uses_.awaited(); }
  // The latest uses of free blocks that have not passed yet, by stream. O(blocks).
  StreamUses unpassed() const;
  // Merges every kCached and kUnmerged block, and ends hold_merging(). True if there was one.
  bool flush();
  // Merges no block until flush(), so that ids of blocks stay valid.
  void hold_merging() { merging_held_ = true; }

  // Makes one kClaimed block of [begin, end), which has to consist of free blocks, awaiting blocks
  // and holes of one zone. `first` is the block that contains `begin`. What has to pass before the
  // bytes may be used is added to `uses`, if given.
  BlockId claim(BlockId first, size_t begin, size_t end, StreamUses* uses = nullptr);
  // Turns a claimed block into free or awaiting blocks, holes and quarantined blocks, by the state
  // of its pages and the `uses` that have to pass. Without uses, what is free is ready on every
  // stream.
  void unclaim(BlockId id, const PageTable& pages, StreamId stream = StreamId::kDefault,
               const StreamUses& uses = {});
  // Allocates the first `bytes` of a claimed block, which have to be accessible, and unclaims the
  // rest.
  BlockId hand_out(BlockId id, size_t bytes, const PageTable& pages,
                   StreamId stream = StreamId::kDefault, const StreamUses& uses = {});

  Block& operator[](BlockId id) { return blocks_[id]; }
  const Block& operator[](BlockId id) const { return blocks_[id]; }
  const BlockList& blocks() const { return blocks_; }
  BlockTable& table() { return table_; }
  // The first hole of a zone; the others follow by link_next, in no order.
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
  // The bytes of kAwaitingFree blocks.
  size_t awaiting_bytes() const { return awaiting_bytes_; }
  // Notes how many bytes the caller asked for, once the block is handed out.
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
  // Frees a block that is in no list. Requires: its stream and epoch are set.
  void make_free(BlockId id);
  void await(BlockId id, StreamUses uses);
  [[gnu::noinline]] void release_shared(BlockId id);
  BlockId split(BlockId id, size_t bytes);
  void unclaim_accessible(BlockId id, StreamId stream, const StreamUses& uses);
  // Cuts the part within [begin, end) from a free block, an awaiting block or a hole, in no list
  // then.
  BlockId take_part(BlockId id, size_t begin, size_t end, StreamUses* uses);
  // Takes the block out of the list of its state.
  void unlink(BlockId id);
  // Puts the block into the list of its state.
  void link(BlockId id);
  // Sets the state of a block in no list to kFree or kHole, and merges it with its neighbours of
  // that state. Returns the block that it is part of then.
  BlockId merge_as(BlockId id, BlockState state);
  // Merges further, because a block of another stream was joined, so that more may join. Returns
  // the block that it is part of then.
  [[gnu::noinline]] BlockId merge_further(BlockId id);
  bool joins(BlockId id, BlockId neighbour) const;
  // Adds the next block to this one; neither is in a list. True if their streams differed.
  bool absorb_next(BlockId id);
  void check_block(BlockId id, const PageTable& pages) const;
  void check_indices(size_t free_bytes, size_t cached_bytes, size_t awaiting_bytes) const;

  // Of a use by a stream's work until the block is freed.
  static constexpr Epoch kUntilFreed = ~Epoch{0};

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
