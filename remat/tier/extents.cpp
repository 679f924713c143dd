#include "remat/tier/extents.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>

#include "allocator/base/check.h"

namespace tidepool::remat {

std::optional<std::vector<Extent>> Extents::take(uint64_t bytes) {
  if (bytes > room()) return std::nullopt;
  std::vector<Extent> pieces;
  uint64_t left = bytes;
  const auto take_from = [&](auto place) {
    const auto [offset, size] = *place;
    const uint64_t part = std::min(size, left);
    pieces.push_back({offset, part});
    left -= part;
    free_.erase(place);
    if (part < size) free_.emplace(offset + part, size - part);
  };
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [&](const auto& piece) { return piece.second >= bytes; });
  if (fits != free_.end()) {
    take_from(fits);
  } else if (end_ + bytes > capacity_) {
    while (left > 0 && !free_.empty()) take_from(free_.begin());
  }
  if (left > 0) {
    pieces.push_back({end_, left});
    end_ += left;
  }
  taken_ += bytes;
  return pieces;
}

void Extents::give(const std::vector<Extent>& pieces) {
  for (const Extent& piece : pieces) {
    taken_ -= piece.bytes;
    insert(piece);
  }
}

void Extents::insert(Extent extent) {
  auto after = free_.lower_bound(extent.offset);
  if (after != free_.end() && after->first == extent.offset + extent.bytes) {
    extent.bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == extent.offset) {
      extent.offset = before->first;
      extent.bytes += before->second;
      free_.erase(before);
    }
  }
  if (extent.offset + extent.bytes == end_) {
    end_ = extent.offset;
  } else {
    free_.emplace(extent.offset, extent.bytes);
  }
}

void Extents::check_invariants() const {
  uint64_t free_bytes = 0;
  uint64_t last_end = UINT64_MAX;
  for (const auto& [offset, bytes] : free_) {
    TIDEPOOL_CHECK(bytes > 0 && offset != last_end && offset + bytes < end_,
                   "invariant 1: %" PRIu64 " bytes at %" PRIu64 ", end %" PRIu64, bytes, offset,
                   end_);
    last_end = offset + bytes;
    free_bytes += bytes;
  }
  TIDEPOOL_CHECK(free_bytes + taken_ == end_,
                 "invariant 2: %" PRIu64 " free, %" PRIu64 " taken, end %" PRIu64, free_bytes,
                 taken_, end_);
}

}  // namespace tidepool::remat
