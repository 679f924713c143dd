// Page selection: which scattered blocks to evict so that a wanted number of whole pages becomes
// free, to be mapped elsewhere. A pure function over the blocks in address order.
// A page can be taken when nothing in it is kept, so a barrier anywhere in a page keeps the page.
// Greedy by price per byte that can be won (small blocks are weighed with all that shares their
// page), then what proved needless is let go again, dearest first. Not exact: the exact problem
// contains knapsack.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "allocator/search/eviction_candidates.h"

namespace tidepool {

struct PageSelection {
  std::vector<size_t> victims;  // indices of blocks to evict, ascending
  std::vector<size_t> pages;    // page numbers that are free then; as many as wanted, ascending
  uint64_t price = 0;
  size_t evicted_bytes = 0;
};

class PageSelector {
 public:
  // `page_bytes`: a power of two.
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit PageSelector(size_t page_bytes)
      : page_bytes_(page_bytes), page_share_(1.0 / static_cast<double>(page_bytes)) {}

  // Finds the pages under blocks, whose holes consist of whole pages. `room` has no kMovable blocks
  // and is not changed before the selection. O(blocks).
  void lay_out(const EvictionCandidates& room);
  // How many pages can be won at most.
  size_t attainable() const { return attainable_; }
  // Pages that nothing has to be evicted for, and the least that another one can cost: its
  // occupants' prices; UINT64_MAX if there is none.
  size_t free_pages() const { return free_; }
  uint64_t least_price() const { return least_price_; }
  // After lay_out(), whatever was selected since: the price by byte of the evictable block in place
  // `item`, by what lies in its pages; kNever where none of them can be won.
  double price_by_byte(const EvictionCandidates& room, size_t item) const;

  // Pages that touch blocks in [keep_begin, keep_end) are not taken. Nothing, and another may be
  // asked for, if fewer than `wanted` pages can be had. Requires: laid out, and nothing selected
  // since. O(blocks + wanted), and O(victims · log blocks) if anything is to be evicted.
  std::optional<PageSelection> select(size_t wanted, size_t keep_begin = 0, size_t keep_end = 0);

 private:
  // Pages that the same blocks lie in: all those inside a block together, others each for itself.
  struct Run {
    size_t number = 0;       // of the first page
    size_t pages = 1;
    uint64_t price = 0;      // of evictable blocks, about by their shares in each page
    uint32_t occupants = 0;  // evictable blocks not yet picked
    bool kept = false;
  };
  struct Span {
    uint32_t first = 0, last = 0;  // indices into runs_, both inclusive: at most three runs
  };
  // Mostly a few blocks do: so many, and some for each page, are kept in order at first, then more.
  static constexpr size_t kFewCandidates = 8, kManyCandidates = 64;

  struct Candidate {
    double density;
    uint32_t item;
    bool operator<(const Candidate& other) const {  // for a heap whose top is the cheapest
      return density != other.density ? density > other.density : item > other.item;
    }
  };

  // Marks the pages under blocks in [begin, end). Returns the runs that were not marked before.
  std::vector<uint32_t> keep(size_t begin, size_t end);
  // The cheapest candidates, as a heap: at most `most` of them. True if those are all.
  bool make_candidates(const EvictionCandidates& room, size_t most);
  // By price per byte, while fewer than `wanted` pages are won. Returns how many are.
  size_t pick_cheapest(const EvictionCandidates& room, size_t wanted, std::vector<size_t>& victims);
  size_t pick(size_t item);           // pages that become free by it
  size_t unpick_loss(size_t item) const;
  void unpick(size_t item);

  const size_t page_bytes_;
  const double page_share_;  // exact: a power of two
  const EvictionCandidates* room_ = nullptr;  // what is laid out
  std::vector<Run> runs_;  // committed ones, in address order: the first run_count_; reused
  size_t run_count_ = 0;
  std::vector<Span> spans_;  // of each block
  std::vector<Candidate> candidates_;
  size_t attainable_ = 0;  // pages that are not kept
  size_t free_ = 0;        // those among them without occupants
  uint64_t least_price_ = UINT64_MAX;
};

}  // namespace tidepool
