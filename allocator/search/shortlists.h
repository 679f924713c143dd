// Shortlists: lists of the few blocks that a search over all blocks found cheapest for its request,
// so that later requests of about the same size need not look at all blocks again. Blocks are
// compared by price per byte that they give to the request: bytes of the request in its own zone,
// bytes of whole pages elsewhere. Where no single block serves the request, a block is priced as
// PageSelector does it, together with what shares its pages, because small blocks give pages only
// together. Whoever uses a list prices its blocks anew; some of them may be gone. Blocks that were
// left out are not looked at while the list lasts, though they may have become cheaper meanwhile.
// So a list lasts only for a few misses, and nothing may be taken by it that costs more, by the
// bytes that are wanted, than the cheapest block that was left out cost when the list was made:
// Shortlist::limit_by_window(), limit_by_pages(). To a request that wants more than the list was
// made for, a block can give more by as much; so no more is paid than for what the list was for.
// Nor may anything be taken that costs more than kDearer times what the search took that made the
// list: where all was locked or dear that was left out, the first limit says nothing, while blocks
// that were restored or unlocked since then may cost next to nothing.
// Owns the lists, which refer to blocks; owns no blocks. Not thread safe. Invariants: (1) the
// blocks of a list are in address order; (2) no two lists are for the same request; (3) a list
// serves no miss later than one for every kShare of the blocks that it was chosen from. See
// docs/decisions/searching-for-a-window.md.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/arena/reclaimer.h"
#include "allocator/base/sizes.h"
#include "allocator/blocks/block_list.h"
#include "allocator/search/page_selection.h"
#include "allocator/search/priced_layout.h"

namespace tidepool {

// What a request wants: `bytes` in one piece in its zone, or whole pages that hold as many.
struct Wanted {
  size_t bytes = 0;
  size_t page_bytes = 0;  // a power of two; 0: pages cannot be moved
  Zone zone = Zone::kTransient;

  // The bytes of all the pages that the request would take.
  size_t paged_bytes() const { return page_bytes == 0 ? 0 : round_up(bytes, page_bytes); }
  bool operator==(const Wanted&) const = default;
};

struct Shortlist {
  struct Entry {
    BlockRef block;
    size_t offset = 0;
  };

  Wanted wanted;
  uint64_t last_miss = 0;  // the last miss that the list may serve; 0: it was never made
  size_t chosen_from = 0;  // so many blocks
  double left_out = 0;     // price by byte of the cheapest block that could have been listed
  double taken_price = 0;  // of all that the search took that made the list
  std::vector<Entry> entries;

  // The greatest price that may be paid for a window, or for pages, for a request.
  uint64_t limit_by_window(const Wanted& request) const {
    return limit(std::min(request.bytes, wanted.bytes));
  }
  uint64_t limit_by_pages(const Wanted& request) const {
    return limit(std::min(request.paged_bytes(), wanted.paged_bytes()));
  }

 private:
  static constexpr double kDearer = 2;
  uint64_t limit(size_t bytes) const;
};

class Shortlists {
 public:
  static constexpr size_t kLists = 8;  // the list that ends first makes way for a new one
  // How long a list is where blocks are priced with all that shares their pages, and where they are
  // priced singly. With 16 for both, searches take up to 40 % longer; with 32 for both, a tenth
  // longer for the Tree-LSTM; with 10 for single blocks, up to 15 % longer.
  static constexpr size_t kPageEntries = 32, kEntries = 16;
  // A list of small blocks, many of which serve one request, holds enough for so many requests.
  static constexpr size_t kRequests = 8;
  // A list holds at most one in kPart of the blocks that it is chosen from, so that what is left
  // out is worth comparing with.
  static constexpr size_t kPart = 4;
  // A list serves one miss for every kShare blocks that it was chosen from. On the traces for
  // tuning, operators replayed are as many as with exact searches, +0.0 % with 16 and with 8, and
  // +0.1 % with 4, each ±0.1 %.
  static constexpr size_t kShare = 8;
  // A list that was chosen from kMany blocks or more also serves requests whose sizes differ from
  // its own by at most one part in kNear: what grows by a row with each call, say, never has the
  // same size again. Where blocks are few, a search over all takes little time and finds better: on
  // the detector's trace with 3 % less overhead.
  static constexpr size_t kNear = 4, kMany = 2048;
  // Among so many blocks a list is longer, too: one in kListed; and whoever evicts one block of it
  // evicts one more for each kSpare of the blocks that it was chosen from, for later requests.
  static constexpr size_t kListed = 64, kSpare = 512;

  // How many blocks go for later requests where one of the list goes.
  static size_t spares(const Shortlist& list) {
    return list.chosen_from < kMany ? 0 : list.chosen_from / kSpare;
  }

  // Counts a miss. Has to be called once for each miss, before find().
  void count_miss() { ++miss_; }
  // Returns the list that may serve this miss, of those the nearest in size, or nullptr. A caller
  // who finds that one of its blocks is gone may erase that entry.
  Shortlist* find(const Wanted& wanted);
  // Makes the list for `wanted` anew from the evictable blocks of `room`. Those from index
  // `zone_begin` up to, but without, `zone_end` are in the wanted zone. `pages`: the selector that
  // has laid out `room`, if no single block serves the request; else nullptr. `taken`: how many
  // blocks such a request takes, and `taken_price` what these cost. `reclaimer`: says which of the
  // blocks may be listed. O(blocks).
  void choose(const PricedLayout& room, size_t zone_begin, size_t zone_end, const BlockList& blocks,
              const Wanted& wanted, const PageSelector* pages, size_t taken, uint64_t taken_price,
              const Reclaimer& reclaimer);

  void check_invariants() const;

 private:
  struct Candidate {
    double price_by_byte;
    uint32_t item;
  };

  Shortlist& list_for(const Wanted& wanted);

  uint64_t miss_ = 0;
  std::array<Shortlist, kLists> lists_;
  std::vector<Candidate> candidates_;  // scratch of choose()
};

}  // namespace tidepool
