#include "allocator/compaction.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tidepool {
namespace {

// Counts the bytes that have to stay in each page that a block begins or ends in. Pages inside a
// block are that block's alone, and are not counted.
class SharedPages {
 public:
  explicit SharedPages(size_t page_bytes) : page_bytes_(page_bytes) {}

  size_t touched(size_t begin, size_t end) const {
    return (end - 1) / page_bytes_ - begin / page_bytes_ + 1;
  }

  void add(size_t begin, size_t end) {
    for_each_shared(begin, end, [&](size_t page, size_t bytes) { held_[page] += bytes; });
  }
  void remove(size_t begin, size_t end) {
    for_each_shared(begin, end, [&](size_t page, size_t bytes) { held_[page] -= bytes; });
  }
  // How many of a block's pages nothing else has to stay in.
  size_t alone(size_t begin, size_t end) const {
    size_t pages = inside(begin, end);
    for_each_shared(begin, end, [&](size_t page, size_t bytes) { pages += held(page) == bytes; });
    return pages;
  }
  // How many pages of a free place nothing has to stay in.
  size_t fresh(size_t begin, size_t end) const {
    size_t pages = inside(begin, end);
    for_each_shared(begin, end, [&](size_t page, size_t) { pages += held(page) == 0; });
    return pages;
  }

 private:
  size_t inside(size_t begin, size_t end) const {
    const size_t pages = touched(begin, end);
    return pages > 2 ? pages - 2 : 0;
  }
  template <typename Visit>
  void for_each_shared(size_t begin, size_t end, Visit&& visit) const {
    const size_t first = begin / page_bytes_;
    const size_t last = (end - 1) / page_bytes_;
    visit(first, std::min(end, (first + 1) * page_bytes_) - begin);
    if (last > first) visit(last, end - last * page_bytes_);
  }
  size_t held(size_t page) const {
    const auto it = held_.find(page);
    return it == held_.end() ? 0 : it->second;
  }

  const size_t page_bytes_;
  absl::flat_hash_map<size_t, size_t> held_;
};

// A block that may be moved but not evicted.
struct Stay {
  BlockRef block;
  Owner owner;
};

// Lists the blocks that may move, ascending by address, and counts all blocks that stay in
// `shared`.
std::vector<Stay> list_stays(const Arena& arena, StreamId stream, SharedPages& shared) {
  // Larger blocks have most of their pages for themselves wherever they lie.
  const size_t most_bytes = 2 * arena.page_bytes();
  const Heap& heap = arena.heap;
  std::vector<Stay> stays;
  for (BlockId id = heap.blocks().first(); id != BlockId::kNone; id = heap[id].next) {
    const Block& block = heap[id];
    if (block.state == BlockState::kFree || block.state == BlockState::kHole) continue;
    const bool owned = block.state == BlockState::kAllocated && block.owner != nullptr;
    if (owned && arena.reclaimer->evictable(block.owner)) continue;
    shared.add(block.offset, block.end());
    if (!owned || block.bytes > most_bytes || !arena.is_alone(block, stream)) continue;
    if (arena.reclaimer->move_price(block.owner).barrier) continue;
    stays.push_back({heap.blocks().ref(id), block.owner});
  }
  return stays;
}

// Where a block would go, and how many of its pages there nothing else has to stay in.
struct Place {
  BlockId free{};
  size_t begin = 0;
  size_t fresh_pages = 0;
};

// The place for the block that needs the fewest fresh pages, fewer than `most`, and touches no more
// pages than the block does now; among equals the lowest.
Place find_place(Heap& heap, const SharedPages& shared, const Block& from, StreamId stream,
                 size_t most) {
  Place place{.fresh_pages = most};
  const size_t touched = shared.touched(from.offset, from.end());
  heap.for_each_free(stream, from.bytes, [&](BlockId id) {
    const Block& free = heap[id];
    // Else numbers and tiny blocks would need another page.
    if (free.zone == Zone::kNumbers || free.zone == Zone::kTiny) return;
    for (const size_t at : {free.offset, free.end() - from.bytes}) {
      const size_t pages = shared.fresh(at, at + from.bytes);
      if (pages > place.fresh_pages || shared.touched(at, at + from.bytes) > touched) continue;
      const bool is_first = place.free == BlockId::kNone;
      if (pages == place.fresh_pages && (is_first || at > place.begin)) continue;
      place = {id, at, pages};
    }
  });
  return place;
}

}  // namespace

size_t compact(DeviceLock& lock, Arena& arena, BlockMover& mover, StreamId stream) {
  // If contents may not move for requests, nothing is gained; if pages cannot move, windows serve
  // as well without.
  const AllocatorConfig& config = arena.config;
  const bool moves = config.allow_moves && config.allow_windows;
  if (!arena.can_move_pages() || !moves || arena.reclaimer == nullptr) return 0;
  Heap& heap = arena.heap;
  heap.flush();
  SharedPages shared(arena.page_bytes());
  const std::vector<Stay> stays = list_stays(arena, stream, shared);
  size_t won = 0;
  CallsInFlight::Sequence sequence(arena.calls);
  // Blocks go from the highest address down, towards the beginnings of zones.
  for (auto stay = stays.rbegin(); stay != stays.rend(); ++stay) {
    if (!heap.blocks().current(stay->block)) continue;
    const Block from = heap[stay->block.id];
    const size_t alone = shared.alone(from.offset, from.end());
    if (alone == 0) continue;
    shared.remove(from.offset, from.end());
    const Place place = find_place(heap, shared, from, stream, alone);
    const bool moved = place.fresh_pages < alone &&
                       mover.move(lock, stay->block, stay->owner,
                                  heap.take_from(place.free, place.begin, from.bytes), stream);
    const size_t begin = moved ? place.begin : from.offset;
    shared.add(begin, begin + from.bytes);
    if (moved) won += alone - place.fresh_pages;
    heap.flush();
  }
  return won;
}

}  // namespace tidepool
