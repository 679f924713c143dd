// Placement: which part of the range (zone) a request's block comes from.
// A page can be taken away only when everything in it is free or evictable, so one small pinned
// block costs a whole page. Hence blocks are kept among their likes: tiny ones (all of them
// together are few bytes, and most of what stays for ever is tiny) packed at the low end, then
// long-lived ones, then blocks smaller than a page, then the large transient ones, which own nearly
// all pages and share each end with at most one neighbour. Every zone fills from its low end. The
// zones divide addresses only; all of them take pages from the same budget.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "allocator/base/owner.h"

namespace tidepool {

enum class Zone : uint8_t { kTiny, kLongLived, kMedium, kTransient };
inline constexpr size_t kZoneCount = 4;
inline constexpr std::array<Zone, kZoneCount> kZones = {Zone::kTiny, Zone::kLongLived,
                                                        Zone::kMedium, Zone::kTransient};

// The share of each zone in the range, in eighths.
using ZoneShares = std::array<size_t, kZoneCount>;
inline constexpr ZoneShares kZoneEighths = {1, 1, 2, 4};
// A range that is not divided.
inline constexpr ZoneShares kOneZoneEighths = {0, 0, 0, 8};

// The zone of a request of `bytes`. Each zone costs up to one partly used page, and lets more pages
// be moved. Where no page has to be moved, `coarse` placement takes less memory: it knows only
// small blocks and others.
inline constexpr Zone zone_for(size_t bytes, PlacementHint hint, size_t page_bytes,
                               bool coarse = false) {
  if (bytes <= page_bytes / (coarse ? 2 : 16)) return Zone::kTiny;
  if (hint == PlacementHint::kLongLived) return Zone::kLongLived;
  return bytes < page_bytes && !coarse ? Zone::kMedium : Zone::kTransient;
}

}  // namespace tidepool
