#include "allocator/search/room_search.h"

#include <algorithm>
#include <utility>

#include "allocator/base/sizes.h"
#include "allocator/base/steady_clock.h"

namespace tidepool {

class RoomSearch::Timer {
 public:
  explicit Timer(uint64_t& total_ns) : total_ns_(total_ns), since_ns_(steady_now_ns()) {}
  ~Timer() { total_ns_ += steady_now_ns() - since_ns_; }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  uint64_t& total_ns_;
  const uint64_t since_ns_;
};

RoomSearch::RoomSearch(Arena& arena)
    : arena_(arena), sites_(arena), view_(arena), selector_(arena.page_bytes()) {}

void RoomSearch::begin() {
  Timer timer(arena_.counts.search_ns);
  ++arena_.search_number;
  if (arena_.reclaimer != nullptr) arena_.reclaimer->begin_search();
}

bool RoomSearch::is_quick(const Request& request) const {
  return arena_.reclaimer != nullptr && arena_.reclaimer->allows_shortlists() &&
         !request.device_failed;
}

bool RoomSearch::can_move_contents(const Request& request) const {
  return arena_.config.allow_moves && arena_.config.allow_windows && arena_.reclaimer != nullptr &&
         !arena_.streams.is_suspended() && request.moves_left > 0;
}

bool RoomSearch::pages_are_dear(const Request& request) const {
  if (request.zone == Zone::kLongLived) return false;
  const size_t page_bytes = arena_.page_bytes();
  const size_t pages = round_up(request.bytes, page_bytes) / page_bytes;
  const auto copy_ns = static_cast<double>(arena_.reclaimer->copy_ns(pages * page_bytes));
  return copy_ns > 0 && arena_.remap_ns(pages) > kFarLonger * copy_ns + added_search_ns(request);
}

uint64_t RoomSearch::full_search_ns() const {
  return arena_.config.search_ns_per_block * arena_.heap.blocks().count();
}

double RoomSearch::added_search_ns(const Request& request) const {
  return is_quick(request) ? static_cast<double>(full_search_ns()) : 0;
}

uint64_t RoomSearch::saved_by(const Shortlist& list, BlockId victim) const {
  if (list.chosen_from < Shortlists::kMany) return 0;
  return arena_.reclaimer->time_price(arena_.heap[victim].owner, full_search_ns());
}

bool RoomSearch::may_cost(const Shortlist& list, uint64_t price, uint64_t limit,
                          std::span<const BlockId> victims) const {
  return price <= limit || price <= limit + saved_by(list, victims.front());
}

// Where moving pages costs less than moving their contents, contents move only where nothing else
// helps, or where a plan prefers it.
bool RoomSearch::moves_come_first(const Request& request) const {
  if (!can_move_contents(request)) return false;
  if (!arena_.can_move_pages()) return true;
  const Preference preference = arena_.reclaimer->preference();
  return preference == Preference::kMoves || preference == Preference::kPlaces ||
         (preference == Preference::kCheapest && pages_are_dear(request));
}

Wanted RoomSearch::wanted_by(const Request& request) const {
  return {request.bytes, arena_.can_move_pages() ? arena_.page_bytes() : 0, request.zone};
}

std::optional<PageSelection> RoomSearch::select_pages(const Request& request,
                                                      const std::optional<Window>& window,
                                                      Site& site) {
  selector_.lay_out(view_.list());
  const bool evicts_for_nothing =
      window && window->price <= selector_.least_price() && !pages_are_preferred(*window);
  for (size_t attempt = 0; attempt < SiteSearch::kAttempts; ++attempt) {
    site = sites_.next(request, attempt);
    if (site.pages_needed == 0) continue;
    const size_t at_hand = arena_.pages_at_hand();
    const size_t wanted = site.pages_needed - std::min(site.pages_needed, at_hand);
    if (evicts_for_nothing && wanted > selector_.free_pages()) {
      if (wanted <= selector_.attainable()) return std::nullopt;
      continue;
    }
    auto selection = selector_.select(wanted, site.begin, site.claim_end);
    if (selection) return selection;
  }
  return std::nullopt;
}

uint64_t RoomSearch::price_of(const PageSelection& selection) {
  uint64_t price = selection.price;
  if (selection.victims.empty()) return price;
  const double ns = arena_.remap_ns(selection.pages.size());
  if (ns <= 0) return price;
  const auto share = static_cast<uint64_t>(ns / static_cast<double>(selection.victims.size()));
  for (size_t victim : selection.victims) {
    const Owner owner = arena_.heap[view_.list()[victim].block].owner;
    price += arena_.reclaimer->time_price(owner, share);
  }
  return price;
}

bool RoomSearch::pages_are_preferred(const Window& window) const {
  return window.evicted_blocks > 0 && arena_.reclaimer->preference() == Preference::kPages;
}

bool RoomSearch::is_better(const Request& request, const Window& window,
                           const std::optional<PageSelection>& selection) {
  if (!selection || request.device_failed) return true;
  if (pages_are_preferred(window)) return false;
  return window.price <= price_of(*selection);
}

void RoomSearch::make_shortlist(const Request& request, bool by_pages, size_t taken,
                                uint64_t taken_price) {
  shortlists_.choose(view_.list(), view_.zone_begin(request.zone), view_.zone_end(request.zone),
                     arena_.heap.blocks(), wanted_by(request), by_pages ? &selector_ : nullptr,
                     taken, taken_price, *arena_.reclaimer);
}

RoomPlan RoomSearch::new_pages(const Request& request) {
  const Site site = sites_.for_new_pages(request);
  if (site.pages_needed == 0) return {};
  PagesPlan plan;
  plan.site = site;
  return plan;
}

RoomPlan RoomSearch::free_pages(const Request& request) {
  Timer timer(arena_.counts.search_ns);
  if (view_.find_free_pages(request.stream)) {
    view_.list_free_pages(request);
    Site site;
    auto selection = select_pages(request, std::nullopt, site);
    if (selection) {
      return view_.plan_of(site, selection->victims, std::move(selection->pages));
    }
  }
  shortlists_.count_miss();
  return {};
}

RoomPlan RoomSearch::unoccupied_pages(const Request& request) {
  Timer timer(arena_.counts.search_ns);
  if (!arena_.can_move_pages()) return {};
  view_.list_all(request, Listing::kEvictions);
  Site site;
  auto selection = select_pages(request, std::nullopt, site);
  if (!selection || !selection->victims.empty()) return {};
  return view_.plan_of(site, selection->victims, std::move(selection->pages));
}

RoomPlan RoomSearch::shortlisted(const Request& request) {
  Timer timer(arena_.counts.search_ns);
  const Wanted wanted = wanted_by(request);
  Shortlist* const list = shortlists_.find(wanted);
  if (list == nullptr) return {};
  view_.list_shortlist(request, *list);
  std::optional<Window> window;
  if (arena_.config.allow_windows) window = view_.find_window(request.zone, request.bytes);
  Site site;
  std::optional<PageSelection> selection;
  // Free pages have been tried, and no other page costs less than the cheapest block. With several
  // streams, however, there may be free pages that only a full selection finds.
  const bool window_is_best = window && window->price <= view_.list().least_price() &&
                              arena_.streams.clocks().stream_count() == 1 &&
                              !pages_are_preferred(*window);
  if (arena_.can_move_pages() && !window_is_best) selection = select_pages(request, window, site);
  if (window && is_better(request, *window, selection)) {
    WindowPlan plan = view_.plan_of(*window);
    if (!may_cost(*list, window->price, list->limit_by_window(wanted), plan.victims)) return {};
    add_spares(request, *list, plan);
    return plan;
  }
  if (!selection) return {};
  const uint64_t price = price_of(*selection);
  PagesPlan plan = view_.plan_of(site, selection->victims, std::move(selection->pages));
  if (!may_cost(*list, price, list->limit_by_pages(wanted), plan.victims)) return {};
  return plan;
}

RoomPlan RoomSearch::evictions(const Request& request, bool remembers) {
  Timer timer(arena_.counts.search_ns);
  view_.list_all(request, Listing::kEvictions);
  std::optional<Window> window;
  if (arena_.config.allow_windows) window = view_.find_window(request.zone, request.bytes);
  Site site;
  std::optional<PageSelection> selection;
  if (arena_.can_move_pages()) selection = select_pages(request, window, site);
  if (arena_.config.allow_windows && !window && !selection) {
    window = view_.find_window_anywhere(request.bytes);
  }
  if (remembers) {
    // A window of one block is like other single blocks; several blocks are like those of a page.
    const bool one_block = window && window->evicted_blocks <= 1;
    const size_t taken = selection ? selection->victims.size()
                         : window  ? window->evicted_blocks
                                   : 0;
    const uint64_t price = selection ? price_of(*selection) : window ? window->price : 0;
    make_shortlist(request, arena_.can_move_pages() && !one_block, taken,
                   window ? std::min<uint64_t>(price, window->price) : price);
  }
  if (window && is_better(request, *window, selection)) {
    WindowPlan plan = view_.plan_of(*window);
    Shortlist* const list = remembers ? shortlists_.find(wanted_by(request)) : nullptr;
    if (list != nullptr && Shortlists::spares(*list) > 0) {
      view_.find_free_pages(request.stream);  // blocks may have been merged since it did
      view_.list_shortlist(request, *list);
      add_spares(request, *list, plan);
    }
    return plan;
  }
  if (!selection) return {};
  return view_.plan_of(site, selection->victims, std::move(selection->pages));
}

void RoomSearch::add_spares(const Request& request, const Shortlist& list, WindowPlan& plan) {
  const size_t most = Shortlists::spares(list);
  if (most == 0 || plan.victims.size() != 1) return;
  plan.spare_limit = list.limit_by_window(wanted_by(request)) +
                     saved_by(list, plan.victims.front()) / Shortlists::kListed;
  const PricedLayout& room = view_.list();
  std::vector<std::pair<uint64_t, BlockId>> found;
  for (size_t i = view_.zone_begin(request.zone); i < view_.zone_end(request.zone); ++i) {
    const RoomItem item = room[i];
    if (item.kind != RoomKind::kEvictable || item.bytes < request.bytes) continue;
    if (item.price > plan.spare_limit || plan.range.contains(item.offset)) continue;
    found.emplace_back(item.price, item.block);
  }
  std::sort(found.begin(), found.end());
  for (size_t i = 0; i < std::min(most, found.size()); ++i) plan.spares.push_back(found[i].second);
}

RoomPlan RoomSearch::window_or_nothing(const std::optional<Window>& window) {
  if (!window) return {};
  if (view_.moves_something(*window)) return view_.moves_of(*window);
  return view_.plan_of(*window);
}

std::optional<Window> RoomSearch::list_window(const Request& request, Zone zone, Listing listing,
                                              std::span<const ByteRange> emptied) {
  view_.list_zone(request, zone, listing, emptied);
  return view_.find_window(zone, request.bytes);
}

std::optional<Window> RoomSearch::list_window_anywhere(const Request& request, Listing listing,
                                                       std::span<const ByteRange> emptied,
                                                       std::optional<Zone> listed) {
  std::optional<Window> window;
  for (size_t i = kZoneCount; i-- > 0 && !window;) {
    if (kZones[i] != listed) window = list_window(request, kZones[i], listing, emptied);
  }
  return window;
}

RoomPlan RoomSearch::window_with_moves(const Request& request, WindowZones zones,
                                       std::span<const ByteRange> emptied) {
  Timer timer(arena_.counts.search_ns);
  if (zones == WindowZones::kAny) {
    return window_or_nothing(list_window_anywhere(request, Listing::kMoves, emptied));
  }
  auto window = list_window(request, request.zone, Listing::kMoves, emptied);
  if (zones == WindowZones::kOwnFirst && !window) {
    window = list_window_anywhere(request, Listing::kMoves, emptied, request.zone);
  }
  return window_or_nothing(window);
}

RoomPlan RoomSearch::window_of_evictions(const Request& request,
                                         std::span<const ByteRange> emptied) {
  Timer timer(arena_.counts.search_ns);
  return window_or_nothing(list_window_anywhere(request, Listing::kEvictions, emptied));
}

size_t RoomSearch::largest_servable(const Request& request) {
  begin();
  view_.list_all(request, Listing::kEvictions);
  const PricedLayout& list = view_.list();
  size_t largest = 0;
  size_t run = 0;
  size_t largest_hole = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const RoomItem item = list[i];
    const bool barrier = item.kind == RoomKind::kBarrier || item.kind == RoomKind::kHole;
    run = barrier ? 0 : (view_.zone_begins_at(i) ? 0 : run) + item.bytes;
    if (arena_.config.allow_windows || item.kind == RoomKind::kFree) {
      largest = std::max(largest, run);
    }
    if (item.kind == RoomKind::kHole) largest_hole = std::max(largest_hole, item.bytes);
  }
  size_t pages = arena_.pages_at_hand();
  if (arena_.can_move_pages()) {
    selector_.lay_out(list);
    pages += selector_.attainable();
  }
  return std::max(largest, std::min(pages * arena_.page_bytes(), largest_hole));
}

void RoomSearch::check_invariants() const {
  view_.list().check_invariants();
  shortlists_.check_invariants();
}

}  // namespace tidepool
