#include "allocator/search/shortlists.h"

#include <algorithm>
#include <tuple>

#include "allocator/base/check.h"

namespace tidepool {
namespace {

// How many bytes the block gives to the request; 0: none without its neighbours.
size_t bytes_given(size_t begin, size_t end, bool in_zone, const Wanted& wanted) {
  const size_t bytes = in_zone ? std::min(end - begin, wanted.bytes) : 0;
  if (wanted.page_bytes == 0) return bytes;
  const size_t first = round_up(begin, wanted.page_bytes);
  const size_t stop = round_down(end, wanted.page_bytes);
  return first < stop ? std::max(bytes, std::min(stop - first, wanted.paged_bytes())) : bytes;
}

}  // namespace

uint64_t Shortlist::limit(size_t bytes) const {
  constexpr uint64_t kMost = UINT64_MAX / 2;
  const double price = std::min(left_out * static_cast<double>(bytes), kDearer * taken_price);
  return price < static_cast<double>(kMost) ? static_cast<uint64_t>(price) : kMost;
}

Shortlist* Shortlists::find(const Wanted& wanted) {
  Shortlist* nearest = nullptr;
  size_t least = wanted.bytes / kNear;
  for (Shortlist& list : lists_) {
    const Wanted& other = list.wanted;
    if (list.last_miss < miss_ || list.last_miss == 0) continue;
    if (other.zone != wanted.zone || other.page_bytes != wanted.page_bytes) continue;
    const size_t apart = std::max(other.bytes, wanted.bytes) - std::min(other.bytes, wanted.bytes);
    if (apart > 0 && list.chosen_from < kMany) continue;
    if (apart > least || (apart == least && nearest != nullptr)) continue;
    nearest = &list;
    least = apart;
  }
  return nearest;
}

Shortlist& Shortlists::list_for(const Wanted& wanted) {
  Shortlist* first_to_end = &lists_[0];
  for (Shortlist& list : lists_) {
    if (list.wanted == wanted) return list;
    if (list.last_miss < first_to_end->last_miss) first_to_end = &list;
  }
  return *first_to_end;
}

void Shortlists::choose(const PricedLayout& room, size_t zone_begin, size_t zone_end,
                        const BlockList& blocks, const Wanted& wanted, const PageSelector* pages,
                        size_t taken, uint64_t taken_price, const Reclaimer& reclaimer) {
  candidates_.clear();
  for (size_t i = 0; i < room.size(); ++i) {
    if (room.kind(i) != RoomKind::kEvictable) continue;
    if (!reclaimer.may_be_shortlisted(blocks[room[i].block].owner)) continue;
    double price_by_byte = PageSelector::kNever;
    if (pages != nullptr) {
      price_by_byte = pages->price_by_byte(room, i);
    } else {
      const bool in_zone = zone_begin <= i && i < zone_end;
      const size_t bytes = bytes_given(room.offset(i), room.offset(i + 1), in_zone, wanted);
      if (bytes == 0) continue;
      price_by_byte = static_cast<double>(room.price(i, i + 1)) / static_cast<double>(bytes);
    }
    if (price_by_byte == PageSelector::kNever) continue;
    candidates_.push_back({price_by_byte, static_cast<uint32_t>(i)});
  }
  Shortlist& list = list_for(wanted);
  list.wanted = wanted;
  list.entries.clear();
  list.chosen_from = candidates_.size();
  list.taken_price = static_cast<double>(taken_price);
  const size_t misses = candidates_.size() / kShare;
  list.last_miss = misses > 0 ? miss_ + misses : 0;
  if (misses == 0) return;
  const size_t many = candidates_.size() < kMany ? 0 : candidates_.size() / kListed;
  const size_t most =
      std::max({pages != nullptr ? kPageEntries : kEntries, kRequests * taken, many});
  const size_t count = std::min(most, candidates_.size() / kPart);
  const auto left_out = candidates_.begin() + static_cast<ptrdiff_t>(count);
  std::nth_element(candidates_.begin(), left_out, candidates_.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return std::tie(a.price_by_byte, a.item) < std::tie(b.price_by_byte, b.item);
                   });
  list.left_out = left_out->price_by_byte;
  std::sort(candidates_.begin(), left_out,
            [](const Candidate& a, const Candidate& b) { return a.item < b.item; });
  for (auto it = candidates_.begin(); it != left_out; ++it) {
    list.entries.push_back({blocks.ref(room[it->item].block), room.offset(it->item)});
  }
}

void Shortlists::check_invariants() const {
  for (size_t k = 0; k < kLists; ++k) {
    const Shortlist& list = lists_[k];
    if (list.last_miss == 0) continue;
    for (size_t entry = 1; entry < list.entries.size(); ++entry) {
      TIDEPOOL_CHECK(list.entries[entry - 1].offset < list.entries[entry].offset,
                     "(1) %zu before %zu", list.entries[entry - 1].offset,
                     list.entries[entry].offset);
    }
    for (size_t other = k + 1; other < kLists; ++other) {
      TIDEPOOL_CHECK(lists_[other].last_miss == 0 || !(lists_[other].wanted == list.wanted),
                     "(2) two lists for %zu bytes", list.wanted.bytes);
    }
  }
}

}  // namespace tidepool
