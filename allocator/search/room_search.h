// RoomSearch: finds how room for a request can be made, at the prices of this moment: a window of
// blocks to evict (Coop, Zhang et al. 2023), scattered blocks whose pages move, or contents that
// move elsewhere. It returns a plan and changes nothing but its own memory and the counts of
// searches.
// Owns what it looks at (RoomView) and what earlier searches found cheapest (Shortlists). Requires
// the device's lock, and does not release it.
// See docs/decisions/searching-for-a-window.md.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "allocator/arena/arena.h"
#include "allocator/arena/room_plan.h"
#include "allocator/search/page_selection.h"
#include "allocator/search/room_view.h"
#include "allocator/search/shortlists.h"
#include "allocator/search/site_search.h"
#include "allocator/search/window_search.h"

namespace tidepool {

// Where a window for a request may lie. Windows in other zones than its own mix what should lie
// apart.
enum class WindowZones : uint8_t {
  kOwn,
  kOwnFirst,  // and in the others where nothing else is found
  kAny,
};

class RoomSearch {
 public:
  explicit RoomSearch(Arena& arena);

  // Begins a search: the reclaimer's clock stands still from now on, and whoever refused to be
  // evicted in the search before may be asked again.
  void begin();
  // Whether shortlists may serve this request.
  bool is_quick(const Request& request) const;
  // Whether contents may move for this request.
  bool can_move_contents(const Request& request) const;
  // Whether contents move before anything is evicted. Requires: begun.
  bool moves_come_first(const Request& request) const;
  // Whether mapping a page elsewhere takes far longer than copying what it holds. On GPUs it does:
  // an H100 takes 52 us for a page of any size up to 64 MiB, and copies 2 MiB in 1.4 us. Never for
  // what stays for long: it has its place, and its pages are paid for once.
  bool pages_are_dear(const Request& request) const;

  // New pages, as far as the budget has room for them.
  RoomPlan new_pages(const Request& request);
  // Free pages, moved together. They come before all that costs something; without them, the
  // request is a miss that shortlists may serve.
  RoomPlan free_pages(const Request& request);
  // Pages that nothing has to be evicted for, found among all blocks.
  RoomPlan unoccupied_pages(const Request& request);
  // What is cheapest among the blocks that an earlier search for such a request found cheapest, if
  // it does not cost more than what that one left out. After free_pages().
  RoomPlan shortlisted(const Request& request);
  // What is cheapest to evict, among all blocks: a window or pages. `remembers`: a shortlist for
  // the next such request is made of what was seen.
  RoomPlan evictions(const Request& request, bool remembers);
  // The cheapest window, whose contents are evicted, or moved where that is cheaper or they may not
  // be evicted. A WindowPlan where nothing in it is to be moved. Nothing in `emptied` is looked at.
  RoomPlan window_with_moves(const Request& request, WindowZones zones,
                             std::span<const ByteRange> emptied = {});
  // The cheapest window to evict, in any zone.
  RoomPlan window_of_evictions(const Request& request, std::span<const ByteRange> emptied);

  // The greatest request that could be served at present; for reports. Begins a search.
  size_t largest_servable(const Request& request);

  void check_invariants() const;

 private:
  // Prices are measured: one that is a little above the other may be so by chance.
  static constexpr double kFarLonger = 4;

  // Adds the time until its end to the counts.
  class Timer;

  Wanted wanted_by(const Request& request) const;
  RoomPlan window_or_nothing(const std::optional<Window>& window);
  // Nothing, too, where no selection can cost less than the window.
  std::optional<PageSelection> select_pages(const Request& request,
                                            const std::optional<Window>& window, Site& site);
  // Of evicting its victims and of moving its pages; the time that takes counts by equal shares,
  // for each victim as a cost of that one would. Nothing for pages that are free already.
  uint64_t price_of(const PageSelection& selection);
  // Whatever the window costs.
  bool pages_are_preferred(const Window& window) const;
  bool is_better(const Request& request, const Window& window,
                 const std::optional<PageSelection>& selection);
  void make_shortlist(const Request& request, bool by_pages);

  Arena& arena_;
  SiteSearch sites_;
  RoomView view_;
  PageSelector selector_;
  Shortlists shortlists_;
};

}  // namespace tidepool
