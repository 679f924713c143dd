#include "allocator/page_selection.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "allocator/check.h"

namespace tidepool {

void PageSelector::lay_out(const RoomList& room) {
  constexpr size_t kNone = SIZE_MAX;
  const auto page_shift = static_cast<unsigned>(std::countr_zero(page_bytes_));
  room_ = &room;
  pages_.clear();
  spans_.resize(room.size());
  Page page{kNone, 0, 0, false};  // that the last block ends in; entered when the next begins
  uint32_t index = 0;             // that it will have
  auto begin_page = [&](const Page& next) {
    if (page.number != kNone) {
      pages_.push_back(page);
      ++index;
    }
    page = next;
  };
  for (size_t i = 0; i < room.size(); ++i) {
    const RoomItem item = room[i];
    if (item.kind == RoomKind::kHole) continue;
    const size_t first = item.offset >> page_shift;
    const size_t last = (item.end() - 1) >> page_shift;
    const uint32_t evictable = item.kind == RoomKind::kEvictable ? 1 : 0;
    const bool barrier = item.kind == RoomKind::kBarrier;
    if (page.number != first) begin_page({first, 0, 0, false});
    page.occupants += evictable;
    page.kept |= barrier;
    spans_[i].first = index;
    if (last == first) {
      page.price += item.price;
    } else {
      // Prices are wanted only of pages that small blocks lie in: never of those inside.
      const uint64_t price_per_page = item.price / (item.bytes >> page_shift | 1);
      page.price += price_per_page;
      for (size_t number = first + 1; number <= last; ++number) {
        begin_page({number, price_per_page, evictable, barrier});
      }
    }
    spans_[i].last = index;
  }
  if (page.number != kNone) pages_.push_back(page);
}

size_t PageSelector::attainable() const {
  return static_cast<size_t>(
      std::count_if(pages_.begin(), pages_.end(), [](const Page& page) { return !page.kept; }));
}

std::vector<uint32_t> PageSelector::keep(size_t begin, size_t end) {
  std::vector<uint32_t> kept;
  if (begin == end) return kept;
  for (size_t i = room_->index_at(begin); i < room_->size() && room_->offset(i) < end; ++i) {
    if ((*room_)[i].kind == RoomKind::kHole) continue;
    for (uint32_t p = spans_[i].first; p <= spans_[i].last; ++p) {
      if (pages_[p].kept) continue;
      pages_[p].kept = true;
      kept.push_back(p);
    }
  }
  return kept;
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

std::optional<PageSelection> PageSelector::select(size_t wanted, size_t keep_begin,
                                                  size_t keep_end) {
  TIDEPOOL_CHECK(room_ != nullptr, "%zu pages of no blocks", wanted);
  const std::vector<uint32_t> kept = keep(keep_begin, keep_end);
  if (attainable() < wanted) {
    for (uint32_t p : kept) pages_[p].kept = false;
    return std::nullopt;
  }
  const RoomList& room = *std::exchange(room_, nullptr);
  size_t won = 0;
  for (const Page& page : pages_) won += !page.kept && page.occupants == 0;

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
