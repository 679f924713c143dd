#include "allocator/heap.h"

#include "allocator/check.h"
#include "allocator/sizes.h"

namespace tidepool {

Heap::Heap(size_t range_bytes, size_t handle_bytes, size_t unit, size_t bins_limit_bytes)
    : range_bytes_(range_bytes),
      handle_bytes_(handle_bytes),
      unit_(unit),
      blocks_(range_bytes),
      table_(range_bytes, unit),
      bins_(blocks_, unit, bins_limit_bytes),
      free_{FreeIndex(blocks_, unit), FreeIndex(blocks_, unit), FreeIndex(blocks_, unit),
            FreeIndex(blocks_, unit)} {
  const size_t eighth = range_bytes / 8;
  TIDEPOOL_CHECK(eighth > 0 && eighth % handle_bytes == 0, "range of %zu bytes", range_bytes);
  for (Zone zone : kZones) {
    size_t share = kZoneEighths[static_cast<size_t>(zone)];
    link(blocks_.append(share * eighth, zone));
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

BlockId Heap::take_cached(Zone zone, size_t bytes) {
  BlockId id = bins_.pop(zone, bytes);
  if (id == BlockId::kNone) return id;
  return make_allocated(id);
}

BlockId Heap::take_free(Zone zone, size_t bytes) {
  FreeIndex& index = index_of(zone);
  BlockId id = index.best_fit(bytes);
  if (id == BlockId::kNone) return id;
  index.remove(id);
  if (blocks_[id].bytes > bytes) index.insert(blocks_.split(id, bytes));
  return make_allocated(id);
}

BlockId Heap::allocated_at(size_t offset) const {
  BlockId id = offset < range_bytes_ ? table_.at(offset) : BlockId::kNone;
  TIDEPOOL_CHECK(id != BlockId::kNone && offset % unit_ == 0,
                 "no block was ever handed out at offset %zu of the range", offset);
  const Block& block = blocks_[id];
  TIDEPOOL_CHECK(block.offset == offset && block.state == BlockState::kAllocated,
                 "no allocated block starts at offset %zu of the range (freed twice?)", offset);
  return id;
}

void Heap::release(BlockId id) {
  Block& block = blocks_[id];
  TIDEPOOL_CHECK(block.state == BlockState::kAllocated || block.state == BlockState::kAwaitingFree,
                 "block at %zu is in state %d", block.offset, static_cast<int>(block.state));
  if (block.state == BlockState::kAllocated) {
    allocated_bytes_ -= block.bytes;
    requested_bytes_ -= block.requested_bytes;
  }
  block.owner = nullptr;
  block.requested_bytes = 0;
  if (merging_held_) {
    block.state = BlockState::kUnmerged;
    link(id);
  } else if (bins_.accepts(block.bytes)) {
    block.state = BlockState::kCached;
    bins_.push(id);
  } else {
    merge_as(id, BlockState::kFree);
  }
}

void Heap::set_awaiting(BlockId id) {
  Block& block = blocks_[id];
  TIDEPOOL_CHECK(block.state == BlockState::kAllocated, "block at %zu", block.offset);
  allocated_bytes_ -= block.bytes;
  requested_bytes_ -= block.requested_bytes;
  block.requested_bytes = 0;
  block.owner = nullptr;
  block.state = BlockState::kAwaitingFree;
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
  for (BlockId id = bins_.pop_any(); id != BlockId::kNone; id = bins_.pop_any()) {
    merge_as(id, BlockState::kFree);
    any = true;
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
      return index_of(block.zone).remove(id);
    case BlockState::kCached:
      return bins_.remove(id);
    case BlockState::kUnmerged:
      return remove_from_list(unmerged_, id);
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
      return index_of(block.zone).insert(id);
    case BlockState::kCached:
      return bins_.push(id);
    case BlockState::kUnmerged:
      return push_list(unmerged_, id);
    default:
      TIDEPOOL_CHECK(false, "block at %zu in state %d has no list", block.offset,
                     static_cast<int>(block.state));
  }
}

bool Heap::same_kind(BlockId id, BlockState state, Zone zone) const {
  return id != BlockId::kNone && blocks_[id].state == state && blocks_[id].zone == zone;
}

void Heap::merge_as(BlockId id, BlockState state) {
  blocks_[id].state = state;
  Zone zone = blocks_[id].zone;
  if (BlockId next = blocks_[id].next; same_kind(next, state, zone)) {
    unlink(next);
    blocks_.absorb_next(id);
  }
  if (BlockId previous = blocks_[id].previous; same_kind(previous, state, zone)) {
    unlink(previous);
    blocks_.absorb_next(previous);
    id = previous;
  }
  link(id);
}

BlockId Heap::claim(BlockId first, size_t begin, size_t end) {
  BlockId id = first;
  TIDEPOOL_CHECK(blocks_[id].offset <= begin && begin < blocks_[id].end(),
                 "block at %zu does not contain %zu", blocks_[id].offset, begin);
  unlink(id);
  if (blocks_[id].offset < begin) {
    BlockId rest = blocks_.split(id, begin - blocks_[id].offset);
    link(id);
    id = rest;
  }
  if (blocks_[id].end() > end) link(blocks_.split(id, end - begin));
  while (blocks_[id].end() < end) {
    BlockId next = blocks_[id].next;
    TIDEPOOL_CHECK(next != BlockId::kNone, "the range ends before %zu", end);
    unlink(next);
    if (blocks_[next].end() > end) link(blocks_.split(next, end - blocks_[next].offset));
    blocks_.absorb_next(id);
  }
  blocks_[id].state = BlockState::kClaimed;
  return id;
}

void Heap::settle(BlockId id, const PageTable& pages) {
  TIDEPOOL_CHECK(blocks_[id].state == BlockState::kClaimed, "block at %zu", blocks_[id].offset);
  const size_t end = blocks_[id].end();
  while (true) {
    size_t begin = blocks_[id].offset;
    size_t page = begin / handle_bytes_;
    PageTable::PageState state = pages.page(page).state;
    while (page * handle_bytes_ < end && pages.page(page).state == state) ++page;
    size_t run_end = std::min(page * handle_bytes_, end);
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
        merge_as(id, BlockState::kFree);
        break;
      case PageTable::PageState::kInaccessible:
        blocks_[id].state = BlockState::kQuarantined;
        break;
    }
    if (rest == BlockId::kNone) return;
    id = rest;
  }
}

BlockId Heap::hand_out(BlockId id, size_t bytes, const PageTable& pages) {
  TIDEPOOL_CHECK(blocks_[id].state == BlockState::kClaimed && blocks_[id].bytes >= bytes,
                 "block of %zu bytes at %zu", blocks_[id].bytes, blocks_[id].offset);
  for (size_t page = blocks_[id].offset / handle_bytes_;
       page * handle_bytes_ < blocks_[id].offset + bytes; ++page) {
    TIDEPOOL_CHECK(pages.page(page).state == PageTable::PageState::kAccessible,
                   "page %zu of a block to hand out", page);
  }
  if (blocks_[id].bytes > bytes) {
    BlockId rest = blocks_.split(id, bytes);
    blocks_[rest].state = BlockState::kClaimed;
    settle(rest, pages);
  }
  return make_allocated(id);
}

void Heap::check_block(BlockId id, const PageTable& pages) const {
  const Block& block = blocks_[id];
  if (block.next != BlockId::kNone && !merging_held_) {
    const Block& next = blocks_[block.next];
    bool merges = block.state == BlockState::kFree || block.state == BlockState::kHole;
    TIDEPOOL_CHECK(!merges || next.state != block.state || next.zone != block.zone,
                   "(3) two neighbours in state %d at %zu", static_cast<int>(block.state),
                   block.offset);
  }
  bool hole = block.state == BlockState::kHole;
  if (hole) {
    TIDEPOOL_CHECK(block.offset % handle_bytes_ == 0 && block.bytes % handle_bytes_ == 0,
                   "(4) hole of %zu bytes at %zu", block.bytes, block.offset);
  }
  if (block.state != BlockState::kClaimed) {
    PageTable::PageState expected =
        hole ? PageTable::PageState::kEmpty
             : block.state == BlockState::kQuarantined ? PageTable::PageState::kInaccessible
                                                       : PageTable::PageState::kAccessible;
    for (size_t page = block.offset / handle_bytes_; page * handle_bytes_ < block.end(); ++page) {
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
}

void Heap::check_invariants(const PageTable& pages) const {
  blocks_.check_invariants();
  bins_.check_invariants();
  size_t allocated = 0, requested = 0, cached = 0, free_bytes = 0;
  size_t eighth = range_bytes_ / 8, zone_end = 0;
  size_t zone = 0;
  for (BlockId id = blocks_.first(); id != BlockId::kNone; id = blocks_[id].next) {
    const Block& block = blocks_[id];
    if (block.offset == zone_end) {
      TIDEPOOL_CHECK(zone < kZoneCount, "(1) block at %zu", block.offset);
      zone_end += kZoneEighths[zone++] * eighth;
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
  }
  size_t indexed = 0;
  for (const FreeIndex& index : free_) {
    index.check_invariants();
    indexed += index.bytes();
  }
  TIDEPOOL_CHECK(indexed == free_bytes, "(2) %zu free bytes, %zu indexed", free_bytes, indexed);
  TIDEPOOL_CHECK(bins_.bytes() == cached, "(2) %zu cached, %zu in bins", cached, bins_.bytes());
  TIDEPOOL_CHECK(allocated == allocated_bytes_ && requested == requested_bytes_,
                 "(6) %zu and %zu bytes, not %zu and %zu", allocated, requested, allocated_bytes_,
                 requested_bytes_);
}

}  // namespace tidepool
