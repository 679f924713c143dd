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

  // Holes consist of whole pages. Pages that touch
  // [keep_begin, keep_end) are not taken. Nothing if fewer than `wanted` pages can be had.
  // O(blocks + pages + victims·log blocks).
  std::optional<PageSelection> select(const RoomList& room, size_t wanted,
                                      size_t keep_begin = 0, size_t keep_end = 0);

  // How many pages the last select() could have won at most.
  size_t attainable() const { return attainable_; }

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

  void lay_out(const RoomList& room, size_t keep_begin, size_t keep_end);
  void make_candidates(const RoomList& room);
  size_t pick(size_t item);           // pages that become free by it
  size_t unpick_loss(size_t item) const;
  void unpick(size_t item);

  const size_t page_bytes_;
  size_t attainable_ = 0;
  std::vector<Page> pages_;  // committed ones, in address order; reused between calls
  std::vector<Span> spans_;  // of each block
  std::vector<Candidate> candidates_;
};

}  // namespace tidepool
