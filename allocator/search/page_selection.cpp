#include "allocator/search/page_selection.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "allocator/base/check.h"

namespace tidepool {

void PageSelector::lay_out(const PricedLayout& room) {
  constexpr size_t kNone = SIZE_MAX;
  const auto page_shift = static_cast<unsigned>(std::countr_zero(page_bytes_));
  room_ = &room;
  // A block has at most three runs: the pages that it begins and ends in, and those between.
  if (runs_.size() < 3 * room.size() + 1) runs_.resize(3 * room.size() + 1);
  spans_.resize(room.size());
  Run* const begin = runs_.data();
  Run* end = begin;
  size_t attainable = 0;
  size_t free = 0;
  uint64_t least = UINT64_MAX;
  auto add_run = [&](const Run& run, uint64_t price) {
    attainable += run.kept ? 0 : run.pages;
    free += run.kept || run.occupants > 0 ? 0 : run.pages;
    if (!run.kept && run.occupants > 0) least = std::min(least, price);
    *end++ = run;
  };
  Run page{kNone};  // the page that the last block ends in, entered when the next block begins
  uint64_t page_price = 0;  // of evicting all that lies in it
  for (size_t i = 0; i < room.size(); ++i) {
    const RoomItem item = room[i];
    if (item.kind == RoomKind::kHole) continue;
    const size_t first = item.offset >> page_shift;
    const size_t last = (item.end() - 1) >> page_shift;
    const uint32_t evictable = item.kind == RoomKind::kEvictable ? 1 : 0;
    const bool barrier = item.kind == RoomKind::kBarrier;
    if (page.number != first) {
      if (page.number != kNone) add_run(page, page_price);
      page = {first};
      page_price = 0;
    }
    page.occupants += evictable;
    page_price += item.price;
    page.kept |= barrier;
    spans_[i].first = static_cast<uint32_t>(end - begin);
    if (last == first) {
      page.price += item.price;
    } else {
      // Prices are wanted only of pages that small blocks lie in, never of pages inside a block.
      const uint64_t price_per_page = item.price / (item.bytes >> page_shift | 1);
      page.price += price_per_page;
      add_run(page, page_price);
      const size_t inside = last - first - 1;
      if (inside > 0) add_run({first + 1, inside, price_per_page, evictable, barrier}, item.price);
      page = {last, 1, price_per_page, evictable, barrier};
      page_price = item.price;
    }
    spans_[i].last = static_cast<uint32_t>(end - begin);
  }
  if (page.number != kNone) add_run(page, page_price);
  run_count_ = static_cast<size_t>(end - begin);
  attainable_ = attainable;
  free_ = free;
  least_price_ = least;
}

std::vector<uint32_t> PageSelector::keep(size_t begin, size_t end) {
  std::vector<uint32_t> kept;
  if (begin == end) return kept;
  for (size_t i = room_->index_at(begin); i < room_->size() && room_->offset(i) < end; ++i) {
    if ((*room_)[i].kind == RoomKind::kHole) continue;
    for (uint32_t r = spans_[i].first; r <= spans_[i].last; ++r) {
      Run& run = runs_[r];
      if (run.kept) continue;
      run.kept = true;
      attainable_ -= run.pages;
      if (run.occupants == 0) free_ -= run.pages;
      kept.push_back(r);
    }
  }
  return kept;
}

double PageSelector::price_by_byte(const PricedLayout& room, size_t item) const {
  const Span span = spans_[item];
  if (span.first == span.last) {
    const Run& page = runs_[span.first];
    return page.kept ? kNever : static_cast<double>(page.price) * page_share_;
  }
  size_t useful_pages = 0;
  for (uint32_t r = span.first; r <= span.last; ++r) {
    if (!runs_[r].kept) useful_pages += runs_[r].pages;
  }
  if (useful_pages == 0) return kNever;
  const size_t won = std::min(room.bytes(item, item + 1), useful_pages * page_bytes_);
  return static_cast<double>(room.price(item, item + 1)) / static_cast<double>(won);
}

bool PageSelector::make_candidates(const PricedLayout& room, size_t most) {
  candidates_.clear();
  bool all = true;
  const auto dearest_first = [](const Candidate& a, const Candidate& b) { return b < a; };
  for (size_t i = 0; i < room.size(); ++i) {
    if (room.kind(i) != RoomKind::kEvictable) continue;
    const double density = price_by_byte(room, i);
    if (density == kNever) continue;
    const Candidate candidate{density, static_cast<uint32_t>(i)};
    if (candidates_.size() < most) {
      candidates_.push_back(candidate);
      if (candidates_.size() == most) {
        std::make_heap(candidates_.begin(), candidates_.end(), dearest_first);
      }
      continue;
    }
    all = false;
    if (!dearest_first(candidate, candidates_.front())) continue;
    std::pop_heap(candidates_.begin(), candidates_.end(), dearest_first);
    candidates_.back() = candidate;
    std::push_heap(candidates_.begin(), candidates_.end(), dearest_first);
  }
  std::make_heap(candidates_.begin(), candidates_.end());
  return all;
}

size_t PageSelector::pick_cheapest(const PricedLayout& room, size_t wanted,
                                   std::vector<size_t>& victims) {
  size_t won = free_;
  // Twice as many candidates as lie in so many pages on average are enough; ordering more takes
  // longer.
  size_t most = kFewCandidates + 2 * (wanted - won) * room.size() / attainable_;
  bool all = make_candidates(room, most);
  auto end = candidates_.end();
  while (won < wanted) {
    if (end == candidates_.begin()) {
      TIDEPOOL_CHECK(!all, "%zu of %zu pages", won, wanted);
      // The cheapest of those that have not been picked become the next candidates.
      most = most < kManyCandidates ? kManyCandidates : room.size();
      all = make_candidates(room, most);
      end = candidates_.end();
      for (size_t k = 0; k < victims.size(); ++k) std::pop_heap(candidates_.begin(), end--);
    }
    std::pop_heap(candidates_.begin(), end);
    --end;
    won += pick(end->item);
    victims.push_back(end->item);
  }
  return won;
}

size_t PageSelector::pick(size_t item) {
  size_t won = 0;
  for (uint32_t r = spans_[item].first; r <= spans_[item].last; ++r) {
    if (--runs_[r].occupants == 0 && !runs_[r].kept) won += runs_[r].pages;
  }
  return won;
}

size_t PageSelector::unpick_loss(size_t item) const {
  size_t loss = 0;
  for (uint32_t r = spans_[item].first; r <= spans_[item].last; ++r) {
    if (runs_[r].occupants == 0 && !runs_[r].kept) loss += runs_[r].pages;
  }
  return loss;
}

void PageSelector::unpick(size_t item) {
  for (uint32_t r = spans_[item].first; r <= spans_[item].last; ++r) ++runs_[r].occupants;
}

std::optional<PageSelection> PageSelector::select(size_t wanted, size_t keep_begin,
                                                  size_t keep_end) {
  TIDEPOOL_CHECK(room_ != nullptr, "%zu pages of no blocks", wanted);
  const std::vector<uint32_t> kept = keep(keep_begin, keep_end);
  if (attainable_ < wanted) {
    for (const uint32_t r : kept) {
      runs_[r].kept = false;
      attainable_ += runs_[r].pages;
      if (runs_[r].occupants == 0) free_ += runs_[r].pages;
    }
    return std::nullopt;
  }
  const PricedLayout& room = *std::exchange(room_, nullptr);
  size_t won = free_;
  PageSelection selection;
  std::vector<size_t>& victims = selection.victims;
  if (won < wanted) {
    won = pick_cheapest(room, wanted, victims);
    // Victims that are not needed after all are dropped, the dearest first.
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
  // The highest pages are taken, so that blocks that grow from a zone's low end stay in one piece.
  for (size_t r = run_count_; r-- > 0 && selection.pages.size() < wanted;) {
    const Run& run = runs_[r];
    if (run.kept || run.occupants > 0) continue;
    const size_t taken = std::min(run.pages, wanted - selection.pages.size());
    for (size_t k = 1; k <= taken; ++k) selection.pages.push_back(run.number + run.pages - k);
  }
  std::reverse(selection.pages.begin(), selection.pages.end());
  return selection;
}

}  // namespace tidepool
