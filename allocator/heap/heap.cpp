#include "allocator/heap/heap.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "allocator/base/check.h"
#include "allocator/base/sizes.h"

namespace tidepool {

Heap::Heap(size_t range_bytes, size_t page_bytes, size_t unit, size_t bins_limit_bytes,
           StreamClocks& clocks, const ZoneShares& eighths)
    : range_bytes_(range_bytes),
      page_bytes_(page_bytes),
      unit_(unit),
      eighths_(eighths),
      clocks_(clocks),
      blocks_(range_bytes),
      table_(range_bytes, unit),
      free_(blocks_, clocks, unit, bins_limit_bytes),
      awaiting_(one_per_zone<FreeIndex>(blocks_, unit, BlockState::kAwaitingFree)),
      uses_(blocks_, clocks),
      holes_(one_per_zone<BlockChain>(blocks_)),
      unmerged_(blocks_) {
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
  BlockId id = free_.bins(stream).pop(zone, bytes);
  if (id == BlockId::kNone) return id;
  return make_allocated(id);
}

BlockId Heap::take_free(Zone zone, size_t bytes, StreamId stream, End end) {
  const BlockId id = free_.index(zone, stream).best_fit(bytes);
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
  TIDEPOOL_CHECK(block.state == BlockState::kAllocated, "block at %zu is in state %d", block.offset,
                 static_cast<int>(block.state));
  allocated_bytes_ -= block.bytes;
  requested_bytes_ -= block.requested_bytes;
  block.owner = nullptr;
  block.freed_epoch = clocks_.open(block.stream);
  if (block.shared) [[unlikely]]
    return release_shared(id);
  make_free(id);
}

void Heap::make_free(BlockId id) {
  Block& block = blocks_[id];
  ExactBins& bins = free_.bins(block.stream);
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
  while (unmerged_.first() != BlockId::kNone) {
    const BlockId id = unmerged_.first();
    unmerged_.remove(id);
    merge_as(id, BlockState::kFree);
    any = true;
  }
  for (BlockId id = free_.pop_any_cached(); id != BlockId::kNone; id = free_.pop_any_cached()) {
    merge_as(id, BlockState::kFree);
    any = true;
  }
  return any;
}

void Heap::unlink(BlockId id) {
  Block& block = blocks_[id];
  switch (block.state) {
    case BlockState::kHole:
      return holes_[static_cast<size_t>(block.zone)].remove(id);
    case BlockState::kFree:
      return index_of(block).remove(id);
    case BlockState::kCached:
      return free_.bins(block.stream).remove(id);
    case BlockState::kUnmerged:
      return unmerged_.remove(id);
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
      return holes_[static_cast<size_t>(block.zone)].push(id);
    case BlockState::kFree:
      return index_of(block).insert(id);
    case BlockState::kCached:
      return free_.bins(block.stream).push(id);
    case BlockState::kUnmerged:
      return unmerged_.push(id);
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
  if (differed) [[unlikely]]
    return merge_further(id);
  link(id);
  return id;
}

BlockId Heap::merge_further(BlockId id) { return merge_as(id, blocks_[id].state); }

void Heap::await(BlockId id, StreamUses uses) {
  blocks_[id].state = BlockState::kAwaitingFree;
  uses_.set(id, std::move(uses));
  link(id);
}

void Heap::add_user(BlockId id, StreamId user) {
  if (user != blocks_[id].stream) uses_.add(id, {user, kUntilFreed});
}

void Heap::add_user(BlockId id, StreamUse use) {
  if (use.stream != blocks_[id].stream) uses_.add(id, use);
}

std::vector<StreamId> Heap::users(BlockId id) const {
  const StreamId own = blocks_[id].stream;
  std::vector<StreamId> users{own};
  if (!blocks_[id].shared) return users;
  for (const StreamUse& use : uses_.of(id)) {
    const bool comes_before_own = use.epoch != kUntilFreed && clocks_.ordered(own, use);
    if (!comes_before_own) users.push_back(use.stream);
  }
  return users;
}

void Heap::release_shared(BlockId id) {
  StreamUses uses = uses_.take(id);
  for (StreamUse& use : uses) {
    if (use.epoch == kUntilFreed) use.epoch = clocks_.open(use.stream);
  }
  add_use(uses, {blocks_[id].stream, blocks_[id].freed_epoch});
  await(id, std::move(uses));
}

bool Heap::release_passed() {
  const std::vector<BlockId> done = uses_.passed();
  for (BlockId id : done) {
    unlink(id);
    Block& block = blocks_[id];
    block.freed_epoch = 0;
    for (StreamUse use : uses_.take(id)) {
      if (use.stream == block.stream) block.freed_epoch = use.epoch;
    }
    make_free(id);
  }
  return !done.empty();
}

void Heap::merge_passed() {
  for (BlockId id = blocks_.first(); id != BlockId::kNone; id = blocks_[id].next) {
    while (blocks_[id].state == BlockState::kFree && joins(id, blocks_[id].next)) {
      unlink(id);
      id = merge_as(id, BlockState::kFree);
    }
  }
}

StreamUses Heap::unpassed() const {
  StreamUses result;
  for (BlockId id = blocks_.first(); id != BlockId::kNone; id = blocks_[id].next) {
    const Block& block = blocks_[id];
    bool free = block.state == BlockState::kFree || block.state == BlockState::kCached;
    if (free && !has_passed(block)) add_use(result, {block.stream, block.freed_epoch});
  }
  return result;
}

BlockId Heap::split(BlockId id, size_t bytes) {
  BlockId rest = blocks_.split(id, bytes);
  if (blocks_[id].shared) uses_.copy(id, rest);
  return rest;
}

BlockId Heap::take_part(BlockId id, size_t begin, size_t end, StreamUses* uses) {
  TIDEPOOL_CHECK(blocks_[id].offset <= begin && begin < blocks_[id].end(),
                 "block at %zu does not contain %zu", blocks_[id].offset, begin);
  unlink(id);
  if (blocks_[id].offset < begin) {
    BlockId rest = split(id, begin - blocks_[id].offset);
    link(id);
    id = rest;
  }
  Block& block = blocks_[id];
  if (block.end() > end) link(split(id, end - begin));
  StreamUses own;
  if (block.shared) {
    own = uses_.take(id);
  } else if (block.state != BlockState::kHole && !has_passed(block)) {
    own.push_back({block.stream, block.freed_epoch});
  }
  if (uses != nullptr) add_uses(*uses, own);
  return id;
}

BlockId Heap::claim(BlockId first, size_t begin, size_t end, StreamUses* uses) {
  BlockId id = take_part(first, begin, end, uses);
  while (blocks_[id].end() < end) {
    BlockId next = blocks_[id].next;
    TIDEPOOL_CHECK(next != BlockId::kNone, "the range ends before %zu", end);
    take_part(next, blocks_[id].end(), end, uses);
    blocks_.absorb_next(id);
  }
  blocks_[id].state = BlockState::kClaimed;
  blocks_[id].freed_epoch = 0;
  return id;
}

void Heap::unclaim_accessible(BlockId id, StreamId stream, const StreamUses& uses) {
  Block& block = blocks_[id];
  block.stream = stream;
  block.freed_epoch = 0;
  if (uses.size() > 1) return await(id, uses);
  if (uses.size() == 1) {
    block.stream = uses.front().stream;
    block.freed_epoch = uses.front().epoch;
  }
  merge_as(id, BlockState::kFree);
}

void Heap::unclaim(BlockId id, const PageTable& pages, StreamId stream, const StreamUses& uses) {
  TIDEPOOL_CHECK(blocks_[id].state == BlockState::kClaimed, "block at %zu", blocks_[id].offset);
  const size_t end = blocks_[id].end();
  while (true) {
    size_t begin = blocks_[id].offset;
    size_t page = begin / page_bytes_;
    PageTable::PageState state = pages.page(page).state;
    while (page * page_bytes_ < end && pages.page(page).state == state) ++page;
    size_t run_end = std::min(page * page_bytes_, end);
    BlockId rest{};
    if (run_end < end) {
      rest = blocks_.split(id, run_end - begin);
      blocks_[rest].state = BlockState::kClaimed;
    }
    switch (state) {
      case PageTable::PageState::kEmpty:
        merge_as(id, BlockState::kHole);
        break;
      case PageTable::PageState::kAccessible:
        unclaim_accessible(id, stream, uses);
        break;
      case PageTable::PageState::kInaccessible:
        blocks_[id].state = BlockState::kQuarantined;
        break;
    }
    if (rest == BlockId::kNone) return;
    id = rest;
  }
}

BlockId Heap::hand_out(BlockId id, size_t bytes, const PageTable& pages, StreamId stream,
                       const StreamUses& uses) {
  TIDEPOOL_CHECK(blocks_[id].state == BlockState::kClaimed && blocks_[id].bytes >= bytes,
                 "block of %zu bytes at %zu", blocks_[id].bytes, blocks_[id].offset);
  for (size_t page = blocks_[id].offset / page_bytes_;
       page * page_bytes_ < blocks_[id].offset + bytes; ++page) {
    TIDEPOOL_CHECK(pages.page(page).state == PageTable::PageState::kAccessible,
                   "page %zu of a block to hand out", page);
  }
  if (blocks_[id].bytes > bytes) {
    BlockId rest = blocks_.split(id, bytes);
    blocks_[rest].state = BlockState::kClaimed;
    unclaim(rest, pages, stream, uses);
  }
  blocks_[id].stream = stream;
  return make_allocated(id);
}

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
    PageTable::PageState expected = hole ? PageTable::PageState::kEmpty
                                    : block.state == BlockState::kQuarantined
                                        ? PageTable::PageState::kInaccessible
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
  free_.check_invariants();
  const size_t indexed = free_.indexed_bytes(), binned = free_.cached_bytes();
  size_t awaiting = 0;
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
