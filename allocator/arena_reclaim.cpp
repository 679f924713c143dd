// Reclaiming: what to evict for a request, window or scattered, and the error when nothing helps.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "allocator/arena.h"
#include "allocator/check.h"
#include "allocator/sizes.h"

namespace tidepool {

namespace {

uint64_t now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

bool Arena::may_go(const Block& block, StreamId stream) const {
  return block.owner != nullptr && reclaimer_ != nullptr && block.refused_search != search_ &&
         (suspended_ == 0 || (block.stream == stream && !block.shared));
}

RoomItem Arena::item_for(BlockId id, const Request& request, bool moving) {
  const StreamId stream = request.stream;
  const Block& block = heap_[id];
  RoomItem item{block.offset, block.bytes, 0, id, RoomKind::kBarrier};
  switch (block.state) {
    case BlockState::kHole:
      item.kind = RoomKind::kHole;
      break;
    case BlockState::kFree:
    case BlockState::kCached:
    case BlockState::kUnmerged:
      if (can_order() || ready(stream, block)) item.kind = RoomKind::kFree;
      break;
    case BlockState::kAwaitingFree:
      if (can_order()) item.kind = RoomKind::kFree;
      break;
    case BlockState::kAllocated: {
      if (!may_go(block, stream) || is_emptied(block, request)) break;
      ++counts_.prices;
      Price price = reclaimer_->price(block.owner, free_beside(id));
      if (moving && better_moved(block, request, price, price)) {
        item.kind = RoomKind::kMovable;
      } else if (!price.barrier) {
        item.kind = RoomKind::kEvictable;
      } else {
        break;
      }
      item.price = std::min(price.value, Price::kGreatest);
      break;
    }
    case BlockState::kAwaitingHost:
    case BlockState::kClaimed:
    case BlockState::kQuarantined:
      break;
  }
  return item;
}

size_t Arena::free_beside(BlockId id) const {
  size_t bytes = 0;
  if (!prices_free_beside_) return bytes;
  for (const BlockId neighbour : {heap_[id].previous, heap_[id].next}) {
    if (neighbour == BlockId::kNone) continue;
    const Block& block = heap_[neighbour];
    const bool free = block.state == BlockState::kFree || block.state == BlockState::kCached ||
                      block.state == BlockState::kUnmerged;
    if (free) bytes += block.bytes;
  }
  return bytes;
}

void Arena::list_room(const Request& request, bool moving) {
  room_.start(heap_.blocks().count());
  zone_begins_.fill(0);
  size_t zone = 0;
  walk_.run(heap_.blocks(), [&](BlockId id) {
    while (zone < static_cast<size_t>(heap_[id].zone)) zone_begins_[++zone] = room_.size();
    room_.add(item_for(id, request, moving));
  });
  while (zone < kZoneCount) zone_begins_[++zone] = room_.size();
}

BlockId Arena::block_listed_at(size_t offset) const { return room_[room_.index_at(offset)].block; }

std::optional<Window> Arena::find_window(Zone zone, size_t bytes) const {
  auto index = static_cast<size_t>(zone);
  return search_window(room_, zone_begins_[index], zone_begins_[index + 1], bytes);
}

// Windows in other zones mix what should lie apart: only where nothing else is left.
std::optional<Window> Arena::find_window_anywhere(size_t bytes) const {
  std::optional<Window> window;
  for (size_t i = kZoneCount; i-- > 0 && !window;) window = find_window(kZones[i], bytes);
  return window;
}

std::optional<PageSelection> Arena::select_pages(const Request& request,
                                                 const std::optional<Window>& window, Site& site) {
  selector_.lay_out(room_);
  const bool evicts_for_nothing =
      window && window->price <= selector_.least_price() && !pages_are_preferred(*window);
  for (size_t attempt = 0; attempt < kSiteAttempts; ++attempt) {
    site = next_site(request, attempt);
    if (site.pages_needed == 0) continue;
    size_t wanted = site.pages_needed - std::min(site.pages_needed, pages_at_hand());
    if (evicts_for_nothing && wanted > selector_.free_pages()) {
      if (wanted <= selector_.attainable()) return std::nullopt;
      continue;
    }
    auto selection = selector_.select(wanted, site.begin, site.claim_end);
    if (selection) return selection;
  }
  return std::nullopt;
}

uint64_t Arena::price_of(const PageSelection& selection) {
  uint64_t price = selection.price;
  if (remap_ns_per_handle_ <= 0 || selection.victims.empty()) return price;
  const double ns = remap_ns_per_handle_ * static_cast<double>(selection.pages.size());
  const auto share = static_cast<uint64_t>(ns / static_cast<double>(selection.victims.size()));
  for (size_t victim : selection.victims) {
    price += reclaimer_->time_price(heap_[room_[victim].block].owner, share);
  }
  return price;
}

bool Arena::pages_are_preferred(const Window& window) const {
  return window.evicted_blocks > 0 && reclaimer_->preference() == Preference::kPages;
}

bool Arena::is_better(const Request& request, const Window& window,
                      const std::optional<PageSelection>& selection) {
  if (!selection || request.device_failed) return true;
  if (pages_are_preferred(window)) return false;
  return window.price <= price_of(*selection);
}

void Arena::begin_search() {
  searching_since_ns_ = now_ns();
  ++search_;
  if (reclaimer_ != nullptr) reclaimer_->begin_search();
}

void Arena::count_search() {
  const uint64_t at_ns = now_ns();
  counts_.search_ns += at_ns - searching_since_ns_;
  searching_since_ns_ = at_ns;
}

void Arena::make_shortlist(const Request& request, bool by_pages) {
  const auto zone = static_cast<size_t>(request.zone);
  shortlists_.choose(room_, zone_begins_[zone], zone_begins_[zone + 1], heap_.blocks(),
                     wanted_by(request), by_pages ? &selector_ : nullptr);
}

Arena::Outcome Arena::evict_one(DeviceLock& lock, const Request& request, BlockId& served) {
  begin_search();
  if (can_move_pages()) {
    list_room(request);
    Site site;
    const auto selection = select_pages(request, std::nullopt, site);
    if (selection && selection->victims.empty()) {
      count_search();
      heap_.hold_merging();
      return fill_site(lock, request, site, selection->pages, served);
    }
  }
  const bool evicted = evict_cheapest(request.stream);
  count_search();
  return evicted ? Outcome::kRetry : Outcome::kNothing;
}

Arena::Outcome Arena::reclaim(DeviceLock& lock, Request& request, BlockId& served) {
  if (config_.evict_singly) return evict_one(lock, request, served);
  begin_search();
  Outcome outcome = Outcome::kNothing;
  const bool may_shorten = allows_shortlists_ && !request.device_failed;
  if (may_shorten) {
    find_free_pages(request.stream);
    outcome = take_free_pages(lock, request, served);
  }
  if (outcome != Outcome::kNothing) return outcome;
  // Pages that move cost less than their contents: there, contents move only where nothing else
  // helps, or where a plan says so.
  bool moving = can_move_blocks(request) &&
                (!can_move_pages() || reclaimer_->preference() == Preference::kMoves);
  bool moved = moving;                               // or tried to
  bool pages_are_next = moving && can_move_pages();  // which have not been tried
  const bool shortlists = may_shorten && !moving;
  if (may_shorten) shortlists_.count_miss();
  if (shortlists) outcome = reclaim_shortlisted(lock, request, served);
  if (outcome != Outcome::kNothing) return outcome;
  count_search();
  // Each round but the last has a victim refused, which is a barrier from then on, or finds no
  // place for a block to move to, or is the first that may move blocks.
  while (true) {
    searching_since_ns_ = now_ns();
    list_room(request, moving);
    std::optional<Window> window;
    if (config_.allow_windows) window = find_window(request.zone, request.bytes);
    Site site;
    std::optional<PageSelection> selection;
    if (can_move_pages() && !moving) selection = select_pages(request, window, site);
    if (config_.allow_windows && !window && !selection && !pages_are_next) {
      window = find_window_anywhere(request.bytes);
    }
    if (shortlists && !moving) {
      // One block is replaced by another one, several by those of a page.
      const bool one_block = window && window->evicted_blocks <= 1;
      make_shortlist(request, can_move_pages() && !one_block);
    }
    count_search();
    if (!window && !selection) {
      if (std::exchange(pages_are_next, false)) {
        moving = false;
        continue;
      }
      if (!can_move_blocks(request)) return Outcome::kNothing;
      if (moving && request.evicts_for_places) return Outcome::kNothing;
      if (moved) request.move_limit_bytes = SIZE_MAX;
      request.evicts_for_places = moved;
      moving = moved = true;
      continue;
    }
    if (moving && moves_something(*window)) {
      if (move_out(lock, request, *window) == Outcome::kRetry) return Outcome::kRetry;
      moving = can_move_blocks(request);
      continue;
    }

    if (window && is_better(request, *window, selection)) {
      outcome = take_window(lock, request, *window, served);
      if (outcome != Outcome::kNothing) return outcome;
      continue;
    }
    if (!evict_victims(selection->victims)) {
      heap_.flush();
      continue;
    }
    return fill_site(lock, request, site, selection->pages, served);
  }
}

bool Arena::evict_cheapest(StreamId stream) {
  // Each round but the last has a victim refused, which is a barrier from then on.
  while (true) {
    BlockId cheapest{};
    double least = Reclaimer::kNever;
    walk_.run(heap_.blocks(), [&](BlockId id) {
      const Block& block = heap_[id];
      if (block.state != BlockState::kAllocated || !may_go(block, stream)) return;
      ++counts_.prices;
      const double price = reclaimer_->price_per_byte(block.owner, free_beside(id));
      if (!(price < least)) return;
      cheapest = id;
      least = price;
    });
    if (cheapest == BlockId::kNone) return false;
    if (evict_block(cheapest)) return true;
  }
}

void Arena::make_bytes(DeviceLock& lock, const Request& request) {
  while (request.asked_bytes > config_.requested_limit_bytes ||
         heap_.requested_bytes() > config_.requested_limit_bytes - request.asked_bytes) {
    begin_search();
    const bool evicted = evict_cheapest(request.stream);
    count_search();
    if (evicted) continue;
    if (reclaimer_ == nullptr || !reclaimer_->wait_for_room(lock)) out_of_memory(request);
    ++counts_.retries;
  }
}

bool Arena::evict_block(BlockId id) {
  Block& block = heap_[id];
  if (block.owner == nullptr || !reclaimer_->evict(block.owner)) {
    block.refused_search = search_;
    return false;
  }
  ++counts_.evictions;
  if (config_.allow_remap) heap_.spare_pages();
  counts_.evicted_bytes += block.bytes;
  trace_.add(TraceKind::kEvict, address_of(id).value, block.bytes);
  if (observer_ != nullptr) [[unlikely]] observer_->freed(heap_.view(id), block.shared);
  if (config_.poison) fill(address_of(id).pointer(), block.bytes);
  heap_.release(id);
  return true;
}

bool Arena::evict_victims(std::span<const size_t> victims) {
  heap_.hold_merging();
  for (size_t victim : victims) {
    const BlockId id = room_[victim].block;
    // An eviction may free other blocks, victims among them.
    if (heap_[id].state == BlockState::kAllocated && !evict_block(id)) return false;
  }
  return true;
}

Arena::Outcome Arena::take_window(DeviceLock& lock, const Request& request, const Window& window,
                                  BlockId& served) {
  std::vector<size_t> victims;
  for (size_t i = window.first; i <= window.last; ++i) {
    if (room_[i].kind == RoomKind::kEvictable) victims.push_back(i);
  }
  if (!evict_victims(victims)) {
    heap_.flush();
    return Outcome::kNothing;
  }
  // What is left over joins a free block at the low end, if there is one.
  const RoomItem first = room_[window.first];
  const End end = first.kind == RoomKind::kFree ? End::kHigh : request.end;
  const size_t begin = heap_.start_within(first.offset, window.bytes - request.bytes,
                                          request.bytes, end);
  Claim target;
  target.block = heap_.claim(first.block, begin, begin + request.bytes, &target.uses);
  heap_.flush();
  Outcome outcome = serve_claim(lock, request, target, served);
  if (outcome != Outcome::kServed) return outcome;
  ++counts_.windows;
  trace_.add(TraceKind::kWindow, address_of(served).value, request.bytes);
  return outcome;
}

size_t Arena::largest_servable(const Request& request) {
  begin_search();
  list_room(request);
  size_t largest = 0;
  size_t run = 0;
  size_t largest_hole = 0;
  for (size_t i = 0; i < room_.size(); ++i) {
    const RoomItem item = room_[i];
    bool barrier = item.kind == RoomKind::kBarrier || item.kind == RoomKind::kHole;
    bool zone_begins = std::find(zone_begins_.begin(), zone_begins_.end(), i) != zone_begins_.end();
    run = barrier ? 0 : (zone_begins ? 0 : run) + item.bytes;
    if (config_.allow_windows || item.kind == RoomKind::kFree) largest = std::max(largest, run);
    if (item.kind == RoomKind::kHole) largest_hole = std::max(largest_hole, item.bytes);
  }
  size_t pages = pages_at_hand();
  if (can_move_pages()) {
    selector_.lay_out(room_);
    pages += selector_.attainable();
  }
  return std::max(largest, std::min(pages * config_.handle_bytes, largest_hole));
}

void Arena::tell_uses(const Request& request, OutOfMemoryReport& report) {
  std::vector<HeldBlock> held;
  std::vector<BlockId> ids;
  for (BlockId id = heap_.blocks().first(); id != BlockId::kNone; id = heap_[id].next) {
    const Block& block = heap_[id];
    if (block.state != BlockState::kAllocated) continue;
    ids.push_back(id);
    held.push_back({address_of(id).pointer(), block.owner, block.origin()});
  }
  if (reclaimer_ != nullptr) reclaimer_->tell_uses(held);
  std::map<std::string, size_t> pinned;
  std::map<std::string, size_t> evictable;
  for (size_t k = 0; k < ids.size(); ++k) {
    const Block& block = heap_[ids[k]];
    const bool goes = may_go(block, request.stream) && reclaimer_->evictable(block.owner);
    auto& uses = goes ? evictable : pinned;
    uses[held[k].use] += block.requested_bytes;
    if (block.bytes > block.requested_bytes) {
      uses["rounding up of sizes"] += block.bytes - block.requested_bytes;
    }
  }
  const auto sorted = [](const std::map<std::string, size_t>& uses) {
    std::vector<UsedBytes> all;
    for (const auto& [use, bytes] : uses) all.push_back({use, bytes});
    std::stable_sort(all.begin(), all.end(),
                     [](const UsedBytes& a, const UsedBytes& b) { return a.bytes > b.bytes; });
    return all;
  };
  report.pinned = sorted(pinned);
  report.evictable = sorted(evictable);
  TIDEPOOL_CHECK(report.pinned_bytes() + report.evictable_bytes() == report.allocated_bytes,
                 "%zu pinned and %zu evictable bytes are not the %zu in use",
                 report.pinned_bytes(), report.evictable_bytes(), report.allocated_bytes);
}

size_t Arena::pinned_pages(StreamId stream) const {
  size_t pages = 0;
  size_t counted = 0;  // pages below this one are
  for (BlockId id = heap_.blocks().first(); id != BlockId::kNone; id = heap_[id].next) {
    const Block& block = heap_[id];
    if (block.state != BlockState::kAllocated) continue;
    if (may_go(block, stream) && reclaimer_->evictable(block.owner)) continue;
    const size_t first = std::max(counted, block.offset / config_.handle_bytes);
    counted = std::max(first, (block.end() - 1) / config_.handle_bytes + 1);
    pages += counted - first;
  }
  return pages;
}

size_t Arena::lower_bound(const Request& request, size_t pinned_bytes) const {
  const size_t page_bytes = config_.handle_bytes;
  if (request.asked_bytes > SIZE_MAX - pinned_bytes - page_bytes) return request.asked_bytes;
  size_t bound = round_up(pinned_bytes + request.asked_bytes, page_bytes);
  if (request.device_failed || request.bytes > config_.range_bytes) return bound;
  if (reclaimer_ != nullptr && config_.allow_remap) {
    // The request shares at most its first and its last page with what stays.
    const size_t shared = 2 * (page_bytes - config_.alignment);
    const size_t own = request.bytes - std::min(request.bytes, shared);
    bound = std::max(bound, pinned_pages(request.stream) * page_bytes + round_up(own, page_bytes));
  }
  // A smaller budget would hold fewer pages of the same, and this one has not been enough.
  const bool is_short = pages_at_hand() * page_bytes < request.bytes;
  if (is_short) bound = std::max(bound, (pages_.budget() + 1) * page_bytes);
  return bound;
}

void Arena::out_of_memory(const Request& request) {
  ++counts_.out_of_memory;
  trace_.add(TraceKind::kOutOfMemory, 0, request.asked_bytes);
  OutOfMemoryReport report;
  report.requested_bytes = request.asked_bytes;
  report.budget_bytes = counts_.budget_bytes;
  report.committed_bytes = committed_bytes();
  report.allocated_bytes = heap_.allocated_bytes();
  report.awaiting_bytes = heap_.awaiting_bytes();
  report.largest_servable_bytes = largest_servable(request);
  tell_uses(request, report);
  report.lower_bound_budget_bytes = lower_bound(request, report.pinned_bytes());
  throw OutOfMemory(std::move(report));
}

}  // namespace tidepool
