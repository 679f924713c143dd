#include "allocator/search/room_view.h"

#include <algorithm>

namespace tidepool {

bool RoomView::is_better_moved(const Block& block, const Request& request, Price evicting,
                               Price& price) const {
  if (block.bytes > request.move_limit_bytes || !arena_.is_alone(block, request.stream)) {
    return false;
  }
  // To make a place for it, something else has to be evicted then.
  const bool trades = request.trades_places;
  if (request.evicts_for_places && !trades && !evicting.barrier) return false;
  Price moving = arena_.reclaimer->move_price(block.owner);
  if (moving.barrier) return false;
  if (trades) {
    const uint64_t place = places_.price(block.bytes);
    if (place == PlacePrices::kNone && !evicting.barrier) return false;
    if (place != PlacePrices::kNone) moving.value += place;
  }
  if (!evicting.barrier && evicting.value <= moving.value) return false;
  price = moving;
  return true;
}

RoomItem RoomView::item_for(BlockId id, const Request& request, Listing listing,
                            std::span<const ByteRange> emptied) {
  const StreamId stream = request.stream;
  const Block& block = arena_.heap[id];
  RoomItem item{block.offset, block.bytes, 0, id, RoomKind::kBarrier};
  switch (block.state) {
    case BlockState::kHole:
      item.kind = RoomKind::kHole;
      break;
    case BlockState::kFree:
    case BlockState::kCached:
    case BlockState::kUnmerged:
      if (arena_.streams.can_order() || arena_.is_ready(stream, block)) {
        item.kind = RoomKind::kFree;
      }
      break;
    case BlockState::kAwaitingFree:
      if (arena_.streams.can_order()) item.kind = RoomKind::kFree;
      break;
    case BlockState::kAllocated: {
      if (!may_leave(block, request, emptied)) break;
      ++arena_.counts.prices;
      Price price = arena_.reclaimer->price(block.owner, arena_.free_beside(id));
      if (listing == Listing::kMoves && is_better_moved(block, request, price, price)) {
        item.kind = RoomKind::kMovable;
      } else if (!price.barrier) {
        item.kind = RoomKind::kEvictable;
      } else {
        break;
      }
      item.price = std::min(price.value, Price::kGreatest);
      break;
    }
    case BlockState::kClaimed:
    case BlockState::kQuarantined:
      break;
  }
  return item;
}

bool RoomView::may_leave(const Block& block, const Request& request,
                         std::span<const ByteRange> emptied) const {
  const auto holds = [&](const ByteRange& range) { return range.contains(block.offset); };
  return arena_.may_go(block, request.stream) &&
         std::none_of(emptied.begin(), emptied.end(), holds);
}

void RoomView::list_all(const Request& request, Listing listing,
                        std::span<const ByteRange> emptied) {
  const Heap& heap = arena_.heap;
  list_.start(heap.blocks().count());
  zone_begins_.fill(0);
  size_t zone = 0;
  walk_.run(heap.blocks(), [&](BlockId id) {
    while (zone < static_cast<size_t>(heap[id].zone)) zone_begins_[++zone] = list_.size();
    list_.add(item_for(id, request, listing, emptied));
  });
  while (zone < kZoneCount) zone_begins_[++zone] = list_.size();
}

void RoomView::list_zone(const Request& request, Zone zone, Listing listing,
                         std::span<const ByteRange> emptied) {
  const bool trades = listing == Listing::kMoves && request.trades_places;
  const Heap& heap = arena_.heap;
  start_excerpt(heap.blocks().count());
  const BlockId first = heap.blocks().first_of(zone);
  if (first != BlockId::kNone) start_zone(heap[first]);
  walk_.run_from(first, heap.blocks(), [&](BlockId id) {
    if (heap[id].zone != zone) return false;
    if (trades) [[unlikely]] {
      items_.push_back(item_for(id, request, Listing::kEvictions, emptied));
    } else {
      list_.add(item_for(id, request, listing, emptied));
    }
    return true;
  });
  if (trades) [[unlikely]]
    list_trades(request, emptied);
  end_excerpt();
}

void RoomView::list_trades(const Request& request, std::span<const ByteRange> emptied) {
  places_.start();
  for (const RoomItem& item : items_) places_.add(item);
  for (RoomItem& item : items_) {
    const Block& block = arena_.heap[item.block];
    Price price{item.price, item.kind == RoomKind::kBarrier};
    if (block.state == BlockState::kAllocated &&
        (item.kind == RoomKind::kEvictable || may_leave(block, request, emptied)) &&
        is_better_moved(block, request, price, price)) {
      item.kind = RoomKind::kMovable;
      item.price = std::min(price.value, Price::kGreatest);
    }
    list_.add(item);
  }
  items_.clear();
}

bool RoomView::zone_begins_at(size_t index) const {
  return std::find(zone_begins_.begin(), zone_begins_.end(), index) != zone_begins_.end();
}

std::optional<Window> RoomView::find_window(Zone zone, size_t bytes) const {
  return search_window(list_, zone_begin(zone), zone_end(zone), bytes);
}

std::optional<Window> RoomView::find_window_anywhere(size_t bytes) const {
  std::optional<Window> window;
  for (size_t i = kZoneCount; i-- > 0 && !window;) window = find_window(kZones[i], bytes);
  return window;
}

bool RoomView::moves_something(const Window& window) const {
  for (size_t i = window.first; i <= window.last; ++i) {
    if (list_.kind(i) == RoomKind::kMovable) return true;
  }
  return false;
}

WindowPlan RoomView::plan_of(const Window& window) const {
  WindowPlan plan;
  const RoomItem first = list_[window.first];
  plan.first = first.block;
  plan.range = {first.offset, list_.offset(window.last + 1)};
  plan.begins_with_free_block = first.kind == RoomKind::kFree;
  for (size_t i = window.first; i <= window.last; ++i) {
    if (list_.kind(i) == RoomKind::kEvictable) plan.victims.push_back(list_[i].block);
  }
  return plan;
}

MovesPlan RoomView::moves_of(const Window& window) const {
  MovesPlan plan;
  plan.range = {list_.offset(window.first), list_.offset(window.last + 1)};
  for (size_t i = window.first; i <= window.last; ++i) {
    const RoomItem item = list_[i];
    if (item.kind == RoomKind::kMovable) plan.moved.push_back(item.block);
    if (item.kind == RoomKind::kFree) plan.free.push_back(item.block);
  }
  return plan;
}

PagesPlan RoomView::plan_of(const Site& site, const std::vector<size_t>& victims,
                            std::vector<size_t> pages) const {
  const size_t page_bytes = arena_.page_bytes();
  PagesPlan plan;
  plan.site = site;
  for (const size_t item : victims) plan.victims.push_back(list_[item].block);
  for (size_t last = pages.size(); last > 0;) {
    size_t first = last - 1;
    while (first > 0 && pages[first - 1] + 1 == pages[first] &&
           !arena_.heap.zone_begins_at(pages[first] * page_bytes)) {
      --first;
    }
    const size_t begin = pages[first] * page_bytes;
    plan.sources.push_back(
        {list_[list_.index_at(begin)].block, {begin, begin + (last - first) * page_bytes}});
    last = first;
  }
  plan.moved_pages = std::move(pages);
  return plan;
}

bool RoomView::find_free_pages(StreamId stream) {
  free_pages_.clear();
  if (!arena_.can_move_pages()) return false;
  Heap& heap = arena_.heap;
  heap.for_each_free(stream, arena_.page_bytes(), [&](BlockId id) { free_pages_.push_back(id); });
  std::sort(free_pages_.begin(), free_pages_.end(),
            [&](BlockId a, BlockId b) { return heap[a].offset < heap[b].offset; });
  return !free_pages_.empty();
}

void RoomView::start_excerpt(size_t blocks) {
  list_.start(2 * blocks + 1);
  zone_begins_.fill(0);
  excerpt_zone_ = 0;
}

void RoomView::add_to_excerpt(BlockId id, const Request& request) {
  const Block& block = arena_.heap[id];
  if (block.offset < list_.offset(list_.size())) return;
  start_zone(block);
  list_.add(item_for(id, request, Listing::kEvictions, {}));
}

// Lists what lies before the block as a barrier, and notes where its zone begins, if it is the
// zone's first in the list.
void RoomView::start_zone(const Block& block) {
  add_gap(block.offset);
  while (excerpt_zone_ < static_cast<size_t>(block.zone)) {
    zone_begins_[++excerpt_zone_] = list_.size();
  }
}

void RoomView::add_gap(size_t end) {
  const size_t begin = list_.offset(list_.size());
  if (begin < end) list_.add({begin, end - begin, 0, BlockId::kNone, RoomKind::kBarrier});
}

void RoomView::end_excerpt() {
  add_gap(arena_.config.range_bytes);
  while (excerpt_zone_ < kZoneCount) zone_begins_[++excerpt_zone_] = list_.size();
}

void RoomView::list_free_pages(const Request& request) {
  start_excerpt(free_pages_.size());
  for (const BlockId id : free_pages_) add_to_excerpt(id, request);
  end_excerpt();
}

void RoomView::list_shortlist(const Request& request, Shortlist& list) {
  const Heap& heap = arena_.heap;
  std::erase_if(list.entries, [&](const Shortlist::Entry& entry) {
    const Block& block = heap[entry.block.id];
    return !heap.blocks().current(entry.block) || block.offset != entry.offset ||
           block.state != BlockState::kAllocated;
  });
  const auto is_free = [&](BlockId id) {
    return id != BlockId::kNone &&
           (heap[id].state == BlockState::kFree || heap[id].state == BlockState::kAwaitingFree);
  };
  start_excerpt(3 * list.entries.size() + free_pages_.size());
  auto free = free_pages_.begin();
  for (const Shortlist::Entry& entry : list.entries) {
    for (; free != free_pages_.end() && heap[*free].offset < entry.offset; ++free) {
      add_to_excerpt(*free, request);
    }
    const Block& block = heap[entry.block.id];
    if (is_free(block.previous)) add_to_excerpt(block.previous, request);
    add_to_excerpt(entry.block.id, request);
    if (is_free(block.next)) add_to_excerpt(block.next, request);
  }
  for (; free != free_pages_.end(); ++free) add_to_excerpt(*free, request);
  end_excerpt();
}

}  // namespace tidepool
