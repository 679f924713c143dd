#include "allocator/page_selection.h"

#include <algorithm>
#include <bit>

namespace tidepool {

void PageSelector::lay_out(const RoomList& room, size_t keep_begin, size_t keep_end) {
  const auto page_shift = static_cast<unsigned>(std::countr_zero(page_bytes_));
  pages_.clear();
  spans_.resize(room.size());
  for (size_t i = 0; i < room.size(); ++i) {
    const RoomItem item = room[i];
    if (item.kind == RoomKind::kHole) continue;
    const size_t first = item.offset >> page_shift;
    const size_t last = (item.end() - 1) >> page_shift;
    const bool evictable = item.kind == RoomKind::kEvictable;
    const bool keep = item.kind == RoomKind::kBarrier ||
                      (item.offset < keep_end && keep_begin < item.end());
    if (pages_.empty() || pages_.back().number < first) pages_.push_back({first, 0, 0, false});
    Page& shared = pages_.back();  // perhaps with the item before
    shared.occupants += evictable;
    shared.kept |= keep;
    spans_[i].first = static_cast<uint32_t>(pages_.size() - 1);
    if (last == first) {
      if (evictable) shared.price += item.price;
    } else {
      // Prices are wanted only of pages that small blocks lie in: never of those inside.
      uint64_t price_per_page = evictable ? item.price / (item.bytes >> page_shift | 1) : 0;
      shared.price += price_per_page;
      for (size_t number = first + 1; number <= last; ++number) {
        pages_.push_back({number, price_per_page, evictable, keep});
      }
    }
    spans_[i].last = static_cast<uint32_t>(pages_.size() - 1);
  }
}

void PageSelector::make_candidates(const RoomList& room) {
  candidates_.clear();
  const double page_share = 1.0 / static_cast<double>(page_bytes_);
  for (size_t i = 0; i < room.size(); ++i) {
    const RoomItem item = room[i];
    if (item.kind != RoomKind::kEvictable) continue;
    Span span = spans_[i];
    double density = 0;
    if (span.first == span.last) {
      const Page& page = pages_[span.first];
      if (page.kept) continue;
      density = static_cast<double>(page.price) * page_share;
    } else {
      size_t useful_pages = 0;
      for (uint32_t p = span.first; p <= span.last; ++p) useful_pages += !pages_[p].kept;
      if (useful_pages == 0) continue;
      size_t won = std::min(item.bytes, useful_pages * page_bytes_);
      density = static_cast<double>(item.price) / static_cast<double>(won);
    }
    candidates_.push_back({density, static_cast<uint32_t>(i)});
  }
  std::make_heap(candidates_.begin(), candidates_.end());
}

size_t PageSelector::pick(size_t item) {
  size_t won = 0;
  for (uint32_t p = spans_[item].first; p <= spans_[item].last; ++p) {
    if (--pages_[p].occupants == 0 && !pages_[p].kept) ++won;
  }
  return won;
}

size_t PageSelector::unpick_loss(size_t item) const {
  size_t loss = 0;
  for (uint32_t p = spans_[item].first; p <= spans_[item].last; ++p) {
    if (pages_[p].occupants == 0 && !pages_[p].kept) ++loss;
  }
  return loss;
}

void PageSelector::unpick(size_t item) {
  for (uint32_t p = spans_[item].first; p <= spans_[item].last; ++p) ++pages_[p].occupants;
}

std::optional<PageSelection> PageSelector::select(const RoomList& room, size_t wanted,
                                                  size_t keep_begin, size_t keep_end) {
  lay_out(room, keep_begin, keep_end);
  size_t won = 0;
  attainable_ = 0;
  for (const Page& page : pages_) {
    attainable_ += !page.kept;
    won += !page.kept && page.occupants == 0;
  }
  if (attainable_ < wanted) return std::nullopt;

  PageSelection selection;
  std::vector<size_t>& victims = selection.victims;
  if (won < wanted) {
    make_candidates(room);
    auto end = candidates_.end();
    while (won < wanted) {
      std::pop_heap(candidates_.begin(), end);
      --end;
      won += pick(end->item);
      victims.push_back(end->item);
    }
    // From the dearest on: who is not needed after all?
    for (size_t i = victims.size(); i-- > 0;) {
      size_t loss = unpick_loss(victims[i]);
      if (won - loss < wanted) continue;
      unpick(victims[i]);
      won -= loss;
      victims.erase(victims.begin() + static_cast<ptrdiff_t>(i));
    }
    std::sort(victims.begin(), victims.end());
  }
  for (size_t victim : victims) {
    selection.price += room.price(victim, victim + 1);
    selection.evicted_bytes += room.bytes(victim, victim + 1);
  }
  // The highest ones: what grows from the low end of a zone stays in one piece longer.
  for (size_t p = pages_.size(); p-- > 0 && selection.pages.size() < wanted;) {
    if (!pages_[p].kept && pages_[p].occupants == 0) selection.pages.push_back(pages_[p].number);
  }
  std::reverse(selection.pages.begin(), selection.pages.end());
  return selection;
}

}  // namespace tidepool
