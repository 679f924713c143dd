#include "allocator/heap/heap.h"

#include "allocator/base/check.h"
#include "allocator/base/sizes.h"

namespace tidepool {

Heap::StreamPool::StreamPool(BlockList& blocks, size_t unit, size_t bins_limit_bytes)
    : bins(blocks, unit, bins_limit_bytes),
      free{FreeIndex(blocks, unit), FreeIndex(blocks, unit), FreeIndex(blocks, unit),
           FreeIndex(blocks, unit)} {}

Heap::Heap(size_t range_bytes, size_t page_bytes, size_t unit, size_t bins_limit_bytes,
           StreamClocks& clocks, const ZoneShares& eighths)
    : range_bytes_(range_bytes),
      page_bytes_(page_bytes),
      unit_(unit),
      eighths_(eighths),
      clocks_(clocks),
      blocks_(range_bytes),
      table_(range_bytes, unit),
      bins_limit_bytes_(bins_limit_bytes),
      default_pool_(blocks_, unit, bins_limit_bytes),
      awaiting_{FreeIndex(blocks_, unit, BlockState::kAwaitingFree),
                FreeIndex(blocks_, unit, BlockState::kAwaitingFree),
                FreeIndex(blocks_, unit, BlockState::kAwaitingFree),
                FreeIndex(blocks_, unit, BlockState::kAwaitingFree)} {
  const size_t eighth = range_bytes / 8;
  TIDEPOOL_CHECK(eighth > 0 && eighth % page_bytes == 0, "range of %zu bytes", range_bytes);
  for (Zone zone : kZones) {
    const size_t share = eighths_[static_cast<size_t>(zone)];
    if (share > 0) link(blocks_.append(share * eighth, zone));
  }
}

BlockView Heap::view(BlockId id) const {
  const Block& block = blocks_[id];
  BlockView view{(base_ + block.offset).pointer(), block.bytes, 0, block.stream, BlockUse::kFree};
  switch (block.state) {
    case BlockState::kHole:
    case BlockState::kClaimed:  // for the moment nobody knows which pages it has
    case BlockState::kQuarantined:
      view.use = BlockUse::kHole;
      break;
    case BlockState::kAllocated:
      view.requested_bytes = block.requested_bytes;
      view.use = BlockUse::kAllocated;
      break;
    case BlockState::kAwaitingFree:
      view.use = BlockUse::kAwaiting;
      break;
    case BlockState::kFree:
    case BlockState::kCached:
    case BlockState::kUnmerged:
      break;
  }
  return view;
}

void Heap::add_stream(StreamId stream) {
  while (other_pools_.size() < static_cast<size_t>(stream)) {
    other_pools_.push_back(std::make_unique<StreamPool>(blocks_, unit_, bins_limit_bytes_));
  }
}

BlockId Heap::make_allocated(BlockId id) {
  Block& block = blocks_[id];
  block.state = BlockState::kAllocated;
  block.owner = nullptr;
  block.requested_bytes = 0;
  table_.set(block.offset, id);
  allocated_bytes_ += block.bytes;
  return id;
}

BlockId Heap::take_cached(Zone zone, size_t bytes, StreamId stream) {
  BlockId id = pool(stream).bins.pop(zone, bytes);
  if (id == BlockId::kNone) return id;
  return make_allocated(id);
}

BlockId Heap::take_free(Zone zone, size_t bytes, StreamId stream, End end) {
  const BlockId id = pool(stream).free[static_cast<size_t>(zone)].best_fit(bytes);
  if (id == BlockId::kNone) return id;
  const Block& block = blocks_[id];
  return take_from(id, start_within(block.offset, block.bytes - bytes, bytes, end), bytes);
}

BlockId Heap::take_from(BlockId id, size_t start, size_t bytes) {
  FreeIndex& index = index_of(blocks_[id]);
  index.remove(id);
  if (start > blocks_[id].offset) [[unlikely]] {
    const BlockId before = id;
    id = blocks_.split(before, start - blocks_[before].offset);
    index.insert(before);
  }
  if (blocks_[id].bytes > bytes) index.insert(blocks_.split(id, bytes));
  return make_allocated(id);
}

size_t Heap::start_within(size_t begin, size_t spare, size_t bytes, End end) const {
  const size_t start = end == End::kHigh ? begin + spare : begin;
  const size_t in_page = start & (page_bytes_ - 1);
  const size_t in_last = (bytes - 1) & (page_bytes_ - 1);
  if (!spares_pages_ || bytes < page_bytes_ || in_page + in_last < page_bytes_) return start;
  const size_t aligned = start - in_page + (end == End::kHigh ? 0 : page_bytes_);
  return begin <= aligned && aligned <= begin + spare ? aligned : start;
}

BlockId Heap::allocated_at(size_t offset) const {
  if (offset >= range_bytes_ || (offset & (unit_ - 1)) != 0) return BlockId::kNone;
  BlockId id = table_.at(offset);
  if (id == BlockId::kNone) return id;
  const Block& block = blocks_[id];
  bool right = block.offset == offset && block.state == BlockState::kAllocated;
  return right ? id : BlockId::kNone;
}

void Heap::release(BlockId id) {
  Block& block = blocks_[id];
  TIDEPOOL_CHECK(block.state == BlockState::kAllocated, "block at %zu is in state %d",
                 block.offset, static_cast<int>(block.state));
  allocated_bytes_ -= block.bytes;
  requested_bytes_ -= block.requested_bytes;
  block.owner = nullptr;
  block.freed_epoch = clocks_.open(block.stream);
  if (block.shared) [[unlikely]] return release_shared(id);
  make_free(id);
}

void Heap::make_free(BlockId id) {
  Block& block = blocks_[id];
  ExactBins& bins = pool(block.stream).bins;
  if (merging_held_) {
    block.state = BlockState::kUnmerged;
    link(id);
  } else if (bins.accepts(block.bytes)) {
    block.state = BlockState::kCached;
    bins.push(id);
  } else {
    merge_as(id, BlockState::kFree);
  }
}

bool Heap::flush() {
  merging_held_ = false;
  bool any = false;
  while (unmerged_ != BlockId::kNone) {
    BlockId id = unmerged_;
    unlink(id);
    merge_as(id, BlockState::kFree);
    any = true;
  }
  for (size_t stream = 0; stream <= other_pools_.size(); ++stream) {
    ExactBins& bins = pool(static_cast<StreamId>(stream)).bins;
    for (BlockId id = bins.pop_any(); id != BlockId::kNone; id = bins.pop_any()) {
      merge_as(id, BlockState::kFree);
      any = true;
    }
  }
  return any;
}

void Heap::push_list(BlockId& head, BlockId id) {
  blocks_[id].link_previous = BlockId::kNone;
  blocks_[id].link_next = head;
  if (head != BlockId::kNone) blocks_[head].link_previous = id;
  head = id;
}

void Heap::remove_from_list(BlockId& head, BlockId id) {
  Block& block = blocks_[id];
  if (block.link_next != BlockId::kNone) {
    blocks_[block.link_next].link_previous = block.link_previous;
  }
  if (block.link_previous != BlockId::kNone) {
    blocks_[block.link_previous].link_next = block.link_next;
  } else {
    head = block.link_next;
  }
  block.link_previous = block.link_next = BlockId::kNone;
}

void Heap::unlink(BlockId id) {
  Block& block = blocks_[id];
  switch (block.state) {
    case BlockState::kHole:
      return remove_from_list(holes_[static_cast<size_t>(block.zone)], id);
    case BlockState::kFree:
      return index_of(block).remove(id);
    case BlockState::kCached:
      return pool(block.stream).bins.remove(id);
    case BlockState::kUnmerged:
      return remove_from_list(unmerged_, id);
    case BlockState::kAwaitingFree:
      if (observer_ != nullptr) observer_->awaiting(view(id), false);
      awaiting_bytes_ -= block.bytes;
      return awaiting_[static_cast<size_t>(block.zone)].remove(id);
    default:
      TIDEPOOL_CHECK(false, "block at %zu in state %d is not free", block.offset,
                     static_cast<int>(block.state));
  }
}

void Heap::link(BlockId id) {
  Block& block = blocks_[id];
  switch (block.state) {
    case BlockState::kHole:
      return push_list(holes_[static_cast<size_t>(block.zone)], id);
    case BlockState::kFree:
      return index_of(block).insert(id);
    case BlockState::kCached:
      return pool(block.stream).bins.push(id);
    case BlockState::kUnmerged:
      return push_list(unmerged_, id);
    case BlockState::kAwaitingFree:
      if (observer_ != nullptr) observer_->awaiting(view(id), true);
      awaiting_bytes_ += block.bytes;
      return awaiting_[static_cast<size_t>(block.zone)].insert(id);
    default:
      TIDEPOOL_CHECK(false, "block at %zu in state %d has no list", block.offset,
                     static_cast<int>(block.state));
  }
}

bool Heap::joins(BlockId id, BlockId neighbour) const {
  if (neighbour == BlockId::kNone) return false;
  const Block& a = blocks_[id];
  const Block& b = blocks_[neighbour];
  if (a.state != b.state || a.zone != b.zone) return false;
  return a.stream == b.stream || a.state == BlockState::kHole || has_passed(a) || has_passed(b);
}

inline bool Heap::absorb_next(BlockId id) {
  Block& a = blocks_[id];
  const Block& b = blocks_[a.next];
  const bool differed = a.stream != b.stream;
  if (!differed) {
    a.freed_epoch = std::max(a.freed_epoch, b.freed_epoch);
  } else if (has_passed(a) && (!has_passed(b) || b.bytes > a.bytes)) {
    a.stream = b.stream;
    a.freed_epoch = b.freed_epoch;
  }
  blocks_.absorb_next(id);
  return differed;
}

BlockId Heap::merge_as(BlockId id, BlockState state) {
  blocks_[id].state = state;
  bool differed = false;
  if (BlockId next = blocks_[id].next; joins(id, next)) {
    unlink(next);
    differed = absorb_next(id);
  }
  if (BlockId previous = blocks_[id].previous; joins(id, previous)) {
    unlink(previous);
    differed |= absorb_next(previous);
    id = previous;
  }
  if (differed) [[unlikely]] return merge_further(id);
  link(id);
  return id;
}

BlockId Heap::merge_further(BlockId id) { return merge_as(id, blocks_[id].state); }

void Heap::check_block(BlockId id, const PageTable& pages) const {
  const Block& block = blocks_[id];
  if (block.next != BlockId::kNone && !merging_held_) {
    const Block& next = blocks_[block.next];
    bool merges = block.state == BlockState::kFree || block.state == BlockState::kHole;
    bool alike = next.state == block.state && next.zone == block.zone &&
                 (block.state == BlockState::kHole || next.stream == block.stream);
    TIDEPOOL_CHECK(!merges || !alike, "(3) two neighbours in state %d at %zu",
                   static_cast<int>(block.state), block.offset);
  }
  bool hole = block.state == BlockState::kHole;
  if (hole) {
    TIDEPOOL_CHECK(block.offset % page_bytes_ == 0 && block.bytes % page_bytes_ == 0,
                   "(4) hole of %zu bytes at %zu", block.bytes, block.offset);
  }
  if (block.state != BlockState::kClaimed) {
    PageTable::PageState expected =
        hole ? PageTable::PageState::kEmpty
             : block.state == BlockState::kQuarantined ? PageTable::PageState::kInaccessible
                                                       : PageTable::PageState::kAccessible;
    for (size_t page = block.offset / page_bytes_; page * page_bytes_ < block.end(); ++page) {
      TIDEPOOL_CHECK(pages.page(page).state == expected, "(4) page %zu under the block at %zu",
                     page, block.offset);
    }
  }
  if (block.state == BlockState::kAllocated) {
    TIDEPOOL_CHECK(table_.at(block.offset) == id, "(5) table at %zu", block.offset);
    TIDEPOOL_CHECK(block.requested_bytes <= block.bytes, "(6) block at %zu", block.offset);
  } else {
    TIDEPOOL_CHECK(block.owner == nullptr, "block at %zu is owned in state %d", block.offset,
                   static_cast<int>(block.state));
  }
  bool awaits = block.state == BlockState::kAwaitingFree;
  bool may_be_shared = awaits || block.state == BlockState::kAllocated;
  TIDEPOOL_CHECK(block.shared == uses_.contains(id) && (may_be_shared || !block.shared) &&
                     (block.shared || !awaits),
                 "(7) block at %zu in state %d", block.offset, static_cast<int>(block.state));
}

void Heap::check_indices(size_t free_bytes, size_t cached_bytes, size_t awaiting_bytes) const {
  size_t indexed = 0, binned = 0, awaiting = 0;
  auto add = [&](const StreamPool& pool) {
    pool.bins.check_invariants();
    binned += pool.bins.bytes();
    for (const FreeIndex& index : pool.free) {
      index.check_invariants();
      indexed += index.bytes();
    }
  };
  add(default_pool_);
  for (const auto& pool : other_pools_) add(*pool);
  for (const FreeIndex& index : awaiting_) {
    index.check_invariants();
    awaiting += index.bytes();
  }
  TIDEPOOL_CHECK(indexed == free_bytes, "(2) %zu free bytes, %zu indexed", free_bytes, indexed);
  TIDEPOOL_CHECK(binned == cached_bytes, "(2) %zu cached, %zu in bins", cached_bytes, binned);
  TIDEPOOL_CHECK(awaiting == awaiting_bytes, "(2) %zu bytes await streams, %zu indexed",
                 awaiting_bytes, awaiting);
}

void Heap::check_invariants(const PageTable& pages) const {
  blocks_.check_invariants();
  clocks_.check_invariants();
  size_t allocated = 0, requested = 0, cached = 0, free_bytes = 0, awaiting = 0;
  size_t eighth = range_bytes_ / 8, zone_end = 0;
  size_t zone = 0;
  for (BlockId id = blocks_.first(); id != BlockId::kNone; id = blocks_[id].next) {
    const Block& block = blocks_[id];
    while (block.offset == zone_end) {
      TIDEPOOL_CHECK(zone < kZoneCount, "(1) block at %zu", block.offset);
      zone_end += eighths_[zone++] * eighth;
    }
    TIDEPOOL_CHECK(block.end() <= zone_end && block.zone == kZones[zone - 1],
                   "(1) block at %zu is not of its zone", block.offset);
    check_block(id, pages);
    if (block.state == BlockState::kAllocated) {
      allocated += block.bytes;
      requested += block.requested_bytes;
    }
    if (block.state == BlockState::kCached) cached += block.bytes;
    if (block.state == BlockState::kFree) free_bytes += block.bytes;
    if (block.state == BlockState::kAwaitingFree) awaiting += block.bytes;
  }
  check_indices(free_bytes, cached, awaiting);
  TIDEPOOL_CHECK(awaiting == awaiting_bytes_, "(6) %zu bytes, not %zu", awaiting, awaiting_bytes_);
  TIDEPOOL_CHECK(allocated == allocated_bytes_ && requested == requested_bytes_,
                 "(6) %zu and %zu bytes, not %zu and %zu", allocated, requested, allocated_bytes_,
                 requested_bytes_);
}

}  // namespace tidepool
