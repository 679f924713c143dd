// Shortlists: of a search that has looked at all blocks, the few that were cheapest for its
// request, so that requests of the same size after it need not look at all of them again. A
// block's price counts by the bytes that it gives: of the request in its own zone, of whole pages
// elsewhere. Where no single block serves the request, it counts as PageSelector counts it, with
// what shares its pages: small blocks give some together.
// What is in a list is priced anew by whoever uses it, and may be gone. What was left out is not
// looked at while the list lasts, though it may have become cheaper meanwhile. So a list lasts for
// few misses, and nothing may be taken by it that costs more, by the bytes that are wanted, than
// the cheapest block left out cost when the list was made: Shortlist::limit().
// Knows blocks by reference, owns none. Not thread safe.
// Invariants: (1) the blocks of a list are in address order; (2) no two lists are for the same;
// (3) a list serves no miss later than one for every kShare of the blocks that it was chosen from.
// See docs/decisions/searching-for-a-window.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/base/sizes.h"
#include "allocator/heap/block_list.h"
#include "allocator/search/eviction_candidates.h"
#include "allocator/search/page_selection.h"

namespace tidepool {

// What a request wants: so many bytes in one piece in its zone, or as many in whole pages.
struct Wanted {
  size_t bytes = 0;
  size_t page_bytes = 0;  // a power of two; 0: pages cannot be moved
  Zone zone = Zone::kTransient;

  // Of all the pages that it would take.
  size_t paged_bytes() const { return page_bytes == 0 ? 0 : round_up(bytes, page_bytes); }
  bool operator==(const Wanted&) const = default;
};

struct Shortlist {
  struct Entry {
    BlockRef block;
    size_t offset = 0;
  };

  Wanted wanted;
  uint64_t last_miss = 0;  // that it may serve; 0: it was never made
  double left_out = 0;     // price by byte of the cheapest block that could have been listed
  std::vector<Entry> entries;

  // The most that may be paid for `bytes` of a window or of pages.
  uint64_t limit(size_t bytes) const;
};

class Shortlists {
 public:
  static constexpr size_t kLists = 8;     // for so many requests; what ends first goes
  // Of a list, by what shares its pages and by single blocks. 16 for both: searches take up to 40 %
  // more; 32 for both: a tenth more for the Tree-LSTM; 10 for single blocks: up to 15 % more.
  static constexpr size_t kPageEntries = 32, kEntries = 16;
  // A list holds at most one in kPart of the blocks that it is chosen from: what is left out then
  // is worth comparing with.
  static constexpr size_t kPart = 4;
  // Replays on the traces for tuning, over those of exact searches: +0.0 % with 16 and
  // with 8, +0.1 % with 4, each ±0.1 %.
  static constexpr size_t kShare = 8;

  // Before find(), once for each miss.
  void count_miss() { ++miss_; }
  // The list that may serve this miss, or nothing. Whoever finds that one of its blocks is gone may
  // erase the entry.
  Shortlist* find(const Wanted& wanted);
  // Makes the list anew from the evictable blocks of `room`: those of `blocks` from `zone_begin` to
  // `zone_end`, which is not among them, are in the wanted zone. `pages`: where no single block
  // serves the request, what has laid out `room`. O(blocks).
  void choose(const EvictionCandidates& room, size_t zone_begin, size_t zone_end,
              const BlockList& blocks, const Wanted& wanted, const PageSelector* pages = nullptr);

  void check_invariants() const;

 private:
  struct Candidate {
    double price_by_byte;
    uint32_t item;
  };

  Shortlist& list_for(const Wanted& wanted);

  uint64_t miss_ = 0;
  std::array<Shortlist, kLists> lists_;
  std::vector<Candidate> candidates_;  // of the last choice; kept for its memory
};

}  // namespace tidepool
