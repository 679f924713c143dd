// Reclaiming without a look at all blocks: from free pages alone, or among the blocks that an
// earlier search found cheapest. Both list what they look at as a search of all blocks does, with
// one barrier for whatever lies between.
#include <algorithm>

#include "allocator/arena.h"

namespace tidepool {

Wanted Arena::wanted_by(const Request& request) const {
  return {request.bytes, can_move_pages() ? config_.handle_bytes : 0, request.zone};
}

void Arena::start_excerpt(size_t blocks) {
  room_.start(2 * blocks + 1);
  zone_begins_.fill(0);
  excerpt_zone_ = 0;
}

void Arena::add_to_excerpt(BlockId id, const Request& request) {
  const Block& block = heap_[id];
  const size_t end = room_.offset(room_.size());
  if (block.offset < end) return;  // listed already
  if (block.offset > end) add_gap(block.offset);
  while (excerpt_zone_ < static_cast<size_t>(block.zone)) {
    zone_begins_[++excerpt_zone_] = room_.size();
  }
  room_.add(item_for(id, request, false));
}

void Arena::add_gap(size_t end) {
  const size_t begin = room_.offset(room_.size());
  if (begin < end) room_.add({begin, end - begin, 0, BlockId::kNone, RoomKind::kBarrier});
}

void Arena::end_excerpt() {
  add_gap(config_.range_bytes);
  while (excerpt_zone_ < kZoneCount) zone_begins_[++excerpt_zone_] = room_.size();
}

void Arena::find_free_pages(StreamId stream) {
  free_pages_.clear();
  if (!can_move_pages()) return;
  heap_.for_each_free(stream, config_.handle_bytes, [&](BlockId id) { free_pages_.push_back(id); });
  std::sort(free_pages_.begin(), free_pages_.end(),
            [&](BlockId a, BlockId b) { return heap_[a].offset < heap_[b].offset; });
}

Arena::Outcome Arena::take_free_pages(DeviceLock& lock, const Request& request, BlockId& served) {
  if (free_pages_.empty()) return Outcome::kNothing;
  start_excerpt(free_pages_.size());
  for (const BlockId id : free_pages_) add_to_excerpt(id, request);
  end_excerpt();
  Site site;
  const auto selection = select_pages(request, std::nullopt, site);
  if (!selection) return Outcome::kNothing;
  count_search();
  heap_.hold_merging();
  return fill_site(lock, request, site, selection->pages, served);
}

void Arena::list_shortlist(const Request& request, Shortlist& list) {
  std::erase_if(list.entries, [&](const Shortlist::Entry& entry) {
    const Block& block = heap_[entry.block.id];
    return !heap_.blocks().current(entry.block) || block.offset != entry.offset ||
           block.state != BlockState::kAllocated;
  });
  const auto is_free = [&](BlockId id) {
    return id != BlockId::kNone && (heap_[id].state == BlockState::kFree ||
                                    heap_[id].state == BlockState::kAwaitingFree);
  };
  start_excerpt(3 * list.entries.size() + free_pages_.size());
  auto free = free_pages_.begin();
  for (const Shortlist::Entry& entry : list.entries) {
    for (; free != free_pages_.end() && heap_[*free].offset < entry.offset; ++free) {
      add_to_excerpt(*free, request);
    }
    const Block& block = heap_[entry.block.id];
    if (is_free(block.previous)) add_to_excerpt(block.previous, request);
    add_to_excerpt(entry.block.id, request);
    if (is_free(block.next)) add_to_excerpt(block.next, request);
  }
  for (; free != free_pages_.end(); ++free) add_to_excerpt(*free, request);
  end_excerpt();
}

Arena::Outcome Arena::reclaim_shortlisted(DeviceLock& lock, const Request& request,
                                          BlockId& served) {
  const Wanted wanted = wanted_by(request);
  Shortlist* const list = shortlists_.find(wanted);
  if (list == nullptr) return Outcome::kNothing;
  list_shortlist(request, *list);
  std::optional<Window> window;
  if (config_.allow_windows) window = find_window(request.zone, request.bytes);
  Site site;
  std::optional<PageSelection> selection;
  // Free pages have been tried, and no other costs less than the cheapest block. On several streams
  // there may be free pages that only a full selection finds.
  const bool window_is_best = window && window->price <= room_.least_price() &&
                              clocks_.stream_count() == 1 && !pages_are_preferred(*window);
  if (can_move_pages() && !window_is_best) selection = select_pages(request, window, site);
  count_search();
  if (window && is_better(request, *window, selection)) {
    if (window->price > list->limit(wanted.bytes)) return Outcome::kNothing;
    const Outcome outcome = take_window(lock, request, *window, served);
    counts_.shortlisted += outcome == Outcome::kServed;
    return outcome;
  }
  if (!selection || price_of(*selection) > list->limit(wanted.paged_bytes())) {
    return Outcome::kNothing;
  }
  if (!evict_victims(selection->victims)) {
    heap_.flush();
    return Outcome::kNothing;
  }
  const Outcome outcome = fill_site(lock, request, site, selection->pages, served);
  counts_.shortlisted += outcome == Outcome::kServed;
  return outcome;
}

}  // namespace tidepool
