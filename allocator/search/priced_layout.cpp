#include "allocator/search/priced_layout.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace tidepool {

PricedLayout::PricedLayout(std::span<const RoomItem> items) {
  start(items.size());
  for (const RoomItem& item : items) add(item);
}

void PricedLayout::start(size_t blocks) {
  size_ = 0;
  least_price_ = UINT64_MAX;
  barriers_.clear();
  if (offsets_.size() > blocks) return;
  offsets_.resize(blocks + 1);
  prices_.resize(blocks + 1);
  details_.resize(blocks + 1);
}

void PricedLayout::add(const RoomItem& item) {
  TIDEPOOL_CHECK(size_ + 1 < offsets_.size(), "more than %zu blocks", size_);
  Detail& detail = details_[size_];
  detail.block = item.block;
  detail.kind = item.kind;
  if (item.kind == RoomKind::kBarrier || item.kind == RoomKind::kHole) {
    barriers_.push_back(static_cast<uint32_t>(size_));
  }
  // There is no branch here, because it could not be predicted which blocks are free.
  const size_t evicted = is_priced(item.kind) ? 1 : 0;
  Detail& next = details_[size_ + 1];
  next.evicted_bytes = detail.evicted_bytes + evicted * item.bytes;
  next.evicted_blocks = detail.evicted_blocks + static_cast<uint32_t>(evicted);
  offsets_[size_ + 1] = offsets_[size_] + item.bytes;
  prices_[size_ + 1] = prices_[size_] + evicted * item.price;
  least_price_ = std::min(least_price_, evicted > 0 ? item.price : UINT64_MAX);
  ++size_;
}

size_t PricedLayout::index_at(size_t offset) const {
  const auto end = offsets_.begin() + static_cast<ptrdiff_t>(size_ + 1);
  const auto after = std::upper_bound(offsets_.begin(), end, offset);
  TIDEPOOL_CHECK(after != offsets_.begin() && after != end, "no block at %zu", offset);
  return static_cast<size_t>(after - offsets_.begin()) - 1;
}

std::span<const uint32_t> PricedLayout::barriers(size_t first, size_t stop) const {
  auto begin = std::lower_bound(barriers_.begin(), barriers_.end(), first);
  return {begin, std::lower_bound(begin, barriers_.end(), stop)};
}

void PricedLayout::check_invariants() const {
  TIDEPOOL_CHECK(offsets_[0] == 0, "(1) the list starts at %zu", offsets_[0]);
  size_t barriers = 0;
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < size_; ++i) {
    const RoomItem item = (*this)[i];
    TIDEPOOL_CHECK(item.bytes > 0 && item.end() == offsets_[i + 1], "(1) block %zu", i);
    if (is_priced(item.kind)) least = std::min(least, item.price);
    if (item.kind != RoomKind::kBarrier && item.kind != RoomKind::kHole) continue;
    TIDEPOOL_CHECK(barriers < barriers_.size() && barriers_[barriers] == i, "(2) block %zu", i);
    ++barriers;
  }
  TIDEPOOL_CHECK(least == least_price_, "(3) %llu, not %llu",
                 static_cast<unsigned long long>(least_price_),
                 static_cast<unsigned long long>(least));
  TIDEPOOL_CHECK(barriers == barriers_.size(), "(2) %zu barriers, %zu listed", barriers,
                 barriers_.size());
}

}  // namespace tidepool
