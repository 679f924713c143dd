// RoomSearch: finds how room for a request can be made, at the prices of this moment: by evicting a
// window of blocks (Coop, Zhang et al. 2023), by evicting scattered blocks and moving their pages,
// or by moving contents elsewhere. It returns a plan, and changes nothing but its own memory and
// the counts of searches.
// Owns what it looks at (RoomView) and what earlier searches found cheapest (Shortlists). Requires
// the device's lock, and does not release it. See docs/decisions/searching-for-a-window.md.
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

// In which zones a window for a request may lie. A window in another zone than the request's own
// mixes blocks that should lie apart.
enum class WindowZones : uint8_t {
  kOwn,
  kOwnFirst,  // in the others only if there is none in its own
  kAny,
};

class RoomSearch {
 public:
  explicit RoomSearch(Arena& arena);

  // Begins a search: the reclaimer's clock stands still from now on, and owners that refused to be
  // evicted in the search before may be asked again.
  void begin();
  // Whether shortlists may serve this request.
  bool is_quick(const Request& request) const;
  // Whether contents may move for this request.
  bool can_move_contents(const Request& request) const;
  // Whether contents move before anything is evicted. Requires: begun.
  bool moves_come_first(const Request& request) const;
  // Whether mapping pages elsewhere takes far longer than copying what they hold, the search for
  // what to copy included. On GPUs it does: an H100 takes 52 us to map a page of any size up to 64
  // MiB elsewhere, and 1.4 us to copy 2 MiB. Pages are never dear for a long-lived request, which
  // pays for them once.
  bool pages_are_dear(const Request& request) const;

  // A plan of new pages, if the budget has room for enough.
  RoomPlan new_pages(const Request& request);
  // A plan that moves free pages together. It comes before all plans that evict; where it is empty,
  // the request counts as a miss for the shortlists.
  RoomPlan free_pages(const Request& request);
  // A plan of pages that nothing has to be evicted for, found among all blocks.
  RoomPlan unoccupied_pages(const Request& request);
  // The cheapest plan among the blocks that an earlier search for such a request found cheapest;
  // empty if it costs more than the blocks that the earlier search left out. Requires: free_pages()
  // found nothing.
  RoomPlan shortlisted(const Request& request);
  // The cheapest plan to evict a window, or blocks for their pages, among all blocks. `remembers`:
  // makes a shortlist of what was seen, for the next such request.
  RoomPlan evictions(const Request& request, bool remembers);
  // A plan of the cheapest window, where contents may be moved, too, if that is cheaper or they may
  // not be evicted; a WindowPlan if nothing in the window has to be moved. Leaves out the blocks in
  // `emptied`.
  RoomPlan window_with_moves(const Request& request, WindowZones zones,
                             std::span<const ByteRange> emptied = {});
  // A plan of the cheapest window to evict in any zone, without the blocks in `emptied`.
  RoomPlan window_of_evictions(const Request& request, std::span<const ByteRange> emptied);

  // The greatest request that could be served at present; for reports. Begins a search.
  size_t largest_servable(const Request& request);

  void check_invariants() const;

 private:
  // How much longer a page takes where pages are dear. The prices are measured, so that a small
  // difference may be chance.
  static constexpr double kFarLonger = 2;

  // Adds the time between its beginning and its end to the counts.
  class Timer;

  // How long a look at all blocks takes, in ns; 0 where that is not known.
  uint64_t full_search_ns() const;
  // What the price of a result from the list may exceed its limit by: among many blocks that of the
  // time that a look at all of them would take, as of the victim's.
  uint64_t saved_by(const Shortlist& list, BlockId victim) const;
  // Whether a result from the list may be taken at this price. What has no victims costs nothing.
  bool may_cost(const Shortlist& list, uint64_t price, uint64_t limit,
                std::span<const BlockId> victims) const;
  // By how much the search for contents to move takes longer than that for pages, in ns: it looks
  // at all blocks, which shortlists save the other where they may serve.
  double added_search_ns(const Request& request) const;
  Wanted wanted_by(const Request& request) const;
  // Lists a zone, and returns its cheapest window.
  std::optional<Window> list_window(const Request& request, Zone zone, Listing listing,
                                    std::span<const ByteRange> emptied);
  // Lists one zone after the other, from the transient zone on, until one has a window; without
  // `listed`, which is known to have none.
  std::optional<Window> list_window_anywhere(const Request& request, Listing listing,
                                             std::span<const ByteRange> emptied,
                                             std::optional<Zone> listed = {});
  // A plan of a window that was found in what is listed at last.
  RoomPlan window_or_nothing(const std::optional<Window>& window);
  // Selects pages for the request; nullopt also if no selection can cost less than the window.
  std::optional<PageSelection> select_pages(const Request& request,
                                            const std::optional<Window>& window, Site& site);
  // The price of a selection: of evicting its victims, and of moving its pages. The time that
  // moving takes is divided equally among the victims, and counts for each one as a cost of its own
  // would. A selection without victims costs nothing.
  uint64_t price_of(const PageSelection& selection);
  // Whether pages are taken, whatever the window costs.
  bool pages_are_preferred(const Window& window) const;
  bool is_better(const Request& request, const Window& window,
                 const std::optional<PageSelection>& selection);
  void make_shortlist(const Request& request, bool by_pages, size_t taken, uint64_t taken_price);
  // Adds to the plan of a window of one block the cheapest others that each serve such a request,
  // of those listed at last, which are the blocks of `list`.
  void add_spares(const Request& request, const Shortlist& list, WindowPlan& plan);

  Arena& arena_;
  SiteSearch sites_;
  RoomView view_;
  PageSelector selector_;
  Shortlists shortlists_;
};

}  // namespace tidepool
