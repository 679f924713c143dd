// FreeBlocks: the free blocks of a heap, those of each stream apart: exact bins in front, and a
// free index for each zone behind them.
// Owns bins and indices; not the blocks, which are linked through their link fields, or the clocks.
// Not thread safe: the caller holds the device's lock.
// Invariants: (1) those of ExactBins and FreeIndex; (2) a stream's bins and indices hold only
// blocks that are ready on that stream.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "allocator/blocks/block_list.h"
#include "allocator/heap/exact_bins.h"
#include "allocator/heap/free_index.h"
#include "allocator/streams/stream_clocks.h"

namespace tidepool {

class FreeBlocks {
 public:
  // `unit`: block sizes are multiples of this power of two. `bins_limit_bytes`: what each stream's
  // bins may hold.
  FreeBlocks(BlockList& blocks, const StreamClocks& clocks, size_t unit, size_t bins_limit_bytes);
  FreeBlocks(const FreeBlocks&) = delete;
  FreeBlocks& operator=(const FreeBlocks&) = delete;

  // Makes bins and indices for all streams up to this one.
  void add_stream(StreamId stream);

  // The bins of kCached blocks that are ready on `stream`.
  ExactBins& bins(StreamId stream) { return pool(stream).bins; }
  // The index of the zone's kFree blocks that are ready on `stream`.
  FreeIndex& index(Zone zone, StreamId stream) {
    return pool(stream).free[static_cast<size_t>(zone)];
  }
  // Takes any block out of any bin; kNone when all are empty.
  BlockId pop_any_cached();

  // The smallest kFree block of the zone on another stream, or kNone; `ordered`: only one for which
  // `stream` need not wait. It stays where it is. O(streams).
  BlockId find_lendable(Zone zone, size_t bytes, StreamId stream, bool ordered) const;
  // Calls visit(BlockId) for every kFree block on the stream of at least `bytes`, in no order.
  template <typename Visit>
  void for_each(StreamId stream, size_t bytes, Visit&& visit) const {
    for (const FreeIndex& index : pool(stream).free) index.for_each(bytes, visit);
  }

  // Sums over all streams. O(streams).
  size_t cached_bytes() const;
  size_t indexed_bytes() const;
  void check_invariants() const;

 private:
  // What is ready on one stream.
  struct Pool {
    Pool(BlockList& blocks, size_t unit, size_t bins_limit_bytes);
    ExactBins bins;
    std::array<FreeIndex, kZoneCount> free;
  };

  const Pool& pool(StreamId stream) const {
    if (stream == StreamId::kDefault) [[likely]]
      return default_pool_;
    return *other_pools_[static_cast<size_t>(stream) - 1];
  }
  Pool& pool(StreamId stream) { return const_cast<Pool&>(std::as_const(*this).pool(stream)); }
  template <typename Visit>
  void for_each_pool(Visit&& visit) const {
    visit(default_pool_);
    for (const auto& other : other_pools_) visit(*other);
  }

  BlockList& blocks_;
  const StreamClocks& clocks_;
  const size_t unit_;
  const size_t bins_limit_bytes_;
  Pool default_pool_;
  std::vector<std::unique_ptr<Pool>> other_pools_;  // from stream 1 on
};

}  // namespace tidepool
