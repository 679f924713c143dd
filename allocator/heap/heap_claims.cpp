// How blocks of the heap are claimed, settled and handed out, and what other streams' uses keep.
#include <algorithm>

#include "allocator/base/check.h"
#include "allocator/heap/heap.h"

namespace tidepool {

StreamUses Heap::take_uses(BlockId id) {
  auto found = uses_.find(id);
  TIDEPOOL_CHECK(blocks_[id].shared && found != uses_.end(), "(7) block at %zu",
                 blocks_[id].offset);
  StreamUses uses = std::move(found->second);
  uses_.erase(found);
  blocks_[id].shared = false;
  return uses;
}

void Heap::await(BlockId id, StreamUses uses) {
  Block& block = blocks_[id];
  block.state = BlockState::kAwaitingFree;
  block.shared = true;
  uses_.insert_or_assign(id, std::move(uses));
  link(id);
}

void Heap::add_user(BlockId id, StreamId user) {
  Block& block = blocks_[id];
  if (user == block.stream) return;
  block.shared = true;
  add_use(uses_[id], {user, 0});
}

void Heap::release_shared(BlockId id) {
  StreamUses uses = take_uses(id);
  for (StreamUse& use : uses) use.epoch = clocks_.open(use.stream);
  add_use(uses, {blocks_[id].stream, blocks_[id].freed_epoch});
  await(id, std::move(uses));
}

bool Heap::release_passed() {
  std::vector<BlockId> done;
  for (const auto& [id, uses] : uses_) {
    const Block& block = blocks_[id];
    if (block.state != BlockState::kAwaitingFree) continue;
    bool passed = std::all_of(uses.begin(), uses.end(), [&](StreamUse use) {
      return use.stream == block.stream || clocks_.passed(use);
    });
    if (passed) done.push_back(id);
  }
  for (BlockId id : done) {
    unlink(id);
    Block& block = blocks_[id];
    block.freed_epoch = 0;
    for (StreamUse use : take_uses(id)) {
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

StreamUses Heap::awaited() const {
  StreamUses result;
  for (const auto& [id, uses] : uses_) {
    const Block& block = blocks_[id];
    if (block.state != BlockState::kAwaitingFree) continue;
    for (StreamUse use : uses) {
      if (use.stream != block.stream && !clocks_.passed(use)) add_use(result, use);
    }
  }
  return result;
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

BlockId Heap::find_lendable(Zone zone, size_t bytes, StreamId stream, bool ordered) {
  BlockId best{};
  for (size_t other = 0; other <= other_pools_.size(); ++other) {
    if (other == static_cast<size_t>(stream)) continue;
    const FreeIndex& index = pool(static_cast<StreamId>(other)).free[static_cast<size_t>(zone)];
    BlockId id = index.best_fit(bytes);
    if (id == BlockId::kNone) continue;
    StreamUse use{blocks_[id].stream, blocks_[id].freed_epoch};
    if (ordered && !clocks_.ordered(stream, use)) continue;
    if (best == BlockId::kNone || blocks_[id].bytes < blocks_[best].bytes) best = id;
  }
  return best;
}

BlockId Heap::split(BlockId id, size_t bytes) {
  BlockId rest = blocks_.split(id, bytes);
  if (blocks_[id].shared) {
    StreamUses uses = uses_.at(id);
    uses_.insert_or_assign(rest, std::move(uses));
    blocks_[rest].shared = true;
  }
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
    own = take_uses(id);
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

void Heap::settle_accessible(BlockId id, StreamId stream, const StreamUses& uses) {
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

void Heap::settle(BlockId id, const PageTable& pages, StreamId stream, const StreamUses& uses) {
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
        settle_accessible(id, stream, uses);
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
    settle(rest, pages, stream, uses);
  }
  blocks_[id].stream = stream;
  return make_allocated(id);
}

}  // namespace tidepool
