// Page selection: which scattered blocks to evict so that a wanted number of whole pages becomes
// free, to be mapped elsewhere. A pure function over the blocks in address order.
// A page can be taken when nothing in it is kept, so a barrier anywhere in a page keeps the page.
// Greedy by price per byte that can be won (small blocks are weighed with all that shares their
// page), then what proved needless is let go again, dearest first. Not exact: the exact problem
// contains knapsack.
#pragma once

#include <optional>
#include <vector>

#include "allocator/room_list.h"

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
  explicit PageSelector(size_t page_bytes) : page_bytes_(page_bytes) {}

  // Finds the pages under blocks, whose holes consist of whole pages. `room` has no kMovable blocks
  // and is not changed before the selection. O(blocks + pages).
  void lay_out(const RoomList& room);
  // How many pages can be won at most. O(pages).
  size_t attainable() const;

  // Pages that touch blocks in [keep_begin, keep_end) are not taken. Nothing, and another may be
  // asked for, if fewer than `wanted` pages can be had. Requires: laid out, and nothing selected
  // since. O(pages) if nothing can be had or is to be evicted, else O(blocks + victims·log blocks).
  std::optional<PageSelection> select(size_t wanted, size_t keep_begin = 0, size_t keep_end = 0);

 private:
  struct Page {
    size_t number = 0;
    uint64_t price = 0;      // of evictable blocks, about by their shares in this page
    uint32_t occupants = 0;  // evictable blocks not yet picked
    bool kept = false;
  };
  struct Span {
    uint32_t first = 0, last = 0;  // indices into pages_, both inclusive
  };
  struct Candidate {
    double density;
    uint32_t item;
    bool operator<(const Candidate& other) const {  // for a heap whose top is the cheapest
      return density != other.density ? density > other.density : item > other.item;
    }
  };

  // Marks the pages under blocks in [begin, end). Returns those that were not marked before.
  std::vector<uint32_t> keep(size_t begin, size_t end);
  void make_candidates(const RoomList& room);
  size_t pick(size_t item);           // pages that become free by it
  size_t unpick_loss(size_t item) const;
  void unpick(size_t item);

  const size_t page_bytes_;
  const RoomList* room_ = nullptr;  // what is laid out
  std::vector<Page> pages_;  // committed ones, in address order; reused between calls
  std::vector<Span> spans_;  // of each block
  std::vector<Candidate> candidates_;
};

}  // namespace tidepool
