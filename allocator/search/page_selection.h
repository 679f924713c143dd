// PageSelector: selects scattered blocks to evict so that a wanted number of whole pages becomes
// free, to be mapped elsewhere. It sees the blocks in address order, and changes nothing. A page
// can be taken if nothing in it stays, so a barrier anywhere in a page keeps the page. The
// selection is greedy, by the price per byte that can be won (a small block is weighed together
// with all that shares its pages). Then victims that proved needless are dropped again, the dearest
// first. The result is not always the cheapest: finding that contains the knapsack problem.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "allocator/search/priced_layout.h"

namespace tidepool {

struct PageSelection {
  std::vector<size_t> victims;  // indices of blocks to evict, ascending
  std::vector<size_t> pages;    // numbers of pages that are free then, as many as wanted, ascending
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
  void lay_out(const PricedLayout& room);
  // How many pages can be had at most.
  size_t attainable() const { return attainable_; }
  // free_pages(): how many pages nothing has to be evicted for. least_price(): the least that any
  // other page costs, which is the price of all that lies in it; UINT64_MAX if there is none.
  size_t free_pages() const { return free_; }
  uint64_t least_price() const { return least_price_; }
  // The price of all that lies in the pages of the evictable block `item`, by byte of these pages;
  // kNever if none of the pages can be had. Requires: laid out, whatever was selected since.
  double price_by_byte(const PricedLayout& room, size_t item) const;

  // Selects `wanted` pages, none of which touches blocks in [keep_begin, keep_end); nullopt if
  // fewer can be had, after which another selection may be asked for. Requires: laid out, and
  // nothing selected since. O(blocks + wanted), and O(victims · log blocks) if anything has to be
  // evicted.
  std::optional<PageSelection> select(size_t wanted, size_t keep_begin = 0, size_t keep_end = 0);

 private:
  // Pages that the same blocks lie in: all pages inside one block are one run, and each other page
  // is a run of its own.
  struct Run {
    size_t number = 0;  // of the first page
    size_t pages = 1;
    uint64_t price = 0;      // of the evictable blocks, roughly by their shares in the pages
    uint32_t occupants = 0;  // evictable blocks not yet picked
    bool kept = false;
  };
  struct Span {
    uint32_t first = 0, last = 0;  // indices into runs_, both inclusive: at most three runs
  };
  // Mostly a few victims are enough. So at first only this many candidates are ordered, and some
  // more for each wanted page; if they are not enough, more are.
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
  // Makes a heap of the cheapest candidates, at most `most` of them. True if these are all.
  bool make_candidates(const PricedLayout& room, size_t most);
  // Picks victims, the cheapest by byte first, until `wanted` pages are had. Returns how many are.
  size_t pick_cheapest(const PricedLayout& room, size_t wanted, std::vector<size_t>& victims);
  size_t pick(size_t item);  // returns how many pages become free by it
  size_t unpick_loss(size_t item) const;
  void unpick(size_t item);

  const size_t page_bytes_;
  const double page_share_;             // exact: a power of two
  const PricedLayout* room_ = nullptr;  // what is laid out
  std::vector<Run> runs_;  // committed ones, in address order: the first run_count_; reused
  size_t run_count_ = 0;
  std::vector<Span> spans_;  // of each block
  std::vector<Candidate> candidates_;
  size_t attainable_ = 0;  // pages that are not kept
  size_t free_ = 0;        // those among them without occupants
  uint64_t least_price_ = UINT64_MAX;
};

}  // namespace tidepool
