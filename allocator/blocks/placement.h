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

// Which zones there are, and what goes into which.
struct Placement {
  ZoneShares eighths = {1, 1, 2, 4};
  // Blocks up to the page's bytes >> this are tiny, and those below the page's bytes >> the other
  // medium; 63: none is.
  int tiny_shift = 4, medium_shift = 0;
  bool has_long_lived = true;
};

// Apart, as by default, costs up to a partly used page for each zone, and lets more pages be moved;
// where none has to be moved, coarse placement takes less: small blocks, and the others.
inline constexpr Placement kCoarsePlacement = {.tiny_shift = 1, .medium_shift = 63};
// A range that is not divided.
inline constexpr Placement kOneZone = {{0, 0, 0, 8}, 63, 63, false};

// The zone of a request of `bytes`.
inline constexpr Zone zone_for(size_t bytes, PlacementHint hint, size_t page_bytes,
                               const Placement& placement) {
  if (bytes <= page_bytes >> placement.tiny_shift) return Zone::kTiny;
  if (hint == PlacementHint::kLongLived && placement.has_long_lived) return Zone::kLongLived;
  return bytes < page_bytes >> placement.medium_shift ? Zone::kMedium : Zone::kTransient;
}

}  // namespace tidepool
