// RoomView: the arena as one search for room sees it: a list of all blocks, or of those that matter
// (an excerpt, with barriers for what lies between them), and where each zone begins in that list.
// Owns the list (PricedLayout) and the memory for making it; asks the reclaimer for prices.
// Requires the device's lock. Changes no block. See docs/decisions/searching-for-a-window.md.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "allocator/arena/arena.h"
#include "allocator/blocks/block_walk.h"
#include "allocator/search/place_prices.h"
#include "allocator/search/priced_layout.h"
#include "allocator/search/shortlists.h"
#include "allocator/search/window_search.h"

namespace tidepool {

// kMoves: contents that are better moved than evicted are listed as movable.
enum class Listing : uint8_t { kEvictions, kMoves };

class RoomView {
 public:
  explicit RoomView(Arena& arena) : arena_(arena) {}

  // Lists all blocks. Blocks in `emptied` are barriers, because their contents are being moved out
  // of there for this request.
  void list_all(const Request& request, Listing listing, std::span<const ByteRange> emptied = {});
  // Lists the blocks of a zone, likewise.
  void list_zone(const Request& request, Zone zone, Listing listing,
                 std::span<const ByteRange> emptied = {});
  // Lists the stream's free blocks that may have whole pages, as found by find_free_pages().
  void list_free_pages(const Request& request);
  // Lists the blocks of the shortlist that are still there, the free ones beside them, and those
  // found by find_free_pages().
  void list_shortlist(const Request& request, Shortlist& list);

  // Looks for the stream's free blocks that may have whole pages. False if there are none.
  bool find_free_pages(StreamId stream);

  const PricedLayout& list() const { return list_; }
  size_t zone_begin(Zone zone) const { return zone_begins_[static_cast<size_t>(zone)]; }
  size_t zone_end(Zone zone) const { return zone_begins_[static_cast<size_t>(zone) + 1]; }
  bool zone_begins_at(size_t index) const;

  std::optional<Window> find_window(Zone zone, size_t bytes) const;
  // The best window of the first zone that has one, from the transient zone on.
  std::optional<Window> find_window_anywhere(size_t bytes) const;
  bool moves_something(const Window& window) const;

  // Plans of what was found in the list.
  WindowPlan plan_of(const Window& window) const;
  MovesPlan moves_of(const Window& window) const;
  PagesPlan plan_of(const Site& site, const std::vector<size_t>& victims,
                    std::vector<size_t> pages) const;

 private:
  RoomItem item_for(BlockId id, const Request& request, Listing listing,
                    std::span<const ByteRange> emptied);
  // Lists `items_`, of which some may move to places that others are evicted for.
  void list_trades(const Request& request, std::span<const ByteRange> emptied);
  bool may_leave(const Block& block, const Request& request,
                 std::span<const ByteRange> emptied) const;
  // Whether the block is better moved than evicted at `evicting`; then `price` is what that costs.
  bool is_better_moved(const Block& block, const Request& request, Price evicting,
                       Price& price) const;
  void start_excerpt(size_t blocks);
  // Blocks are added in ascending order; one that is listed already is not added again.
  void add_to_excerpt(BlockId id, const Request& request);
  void start_zone(const Block& block);
  void add_gap(size_t end);
  void end_excerpt();

  Arena& arena_;
  BlockWalk walk_;
  PlacePrices places_;           // of a search that trades places
  std::vector<RoomItem> items_;  // likewise
  PricedLayout list_;
  std::array<size_t, kZoneCount + 1> zone_begins_{};
  size_t excerpt_zone_ = 0;
  std::vector<BlockId> free_pages_;  // ascending by address
};

}  // namespace tidepool
