// Placement: which part of the range (zone) a request's block comes from.
// A page can be taken away only when everything in it is free or evictable, so one small pinned
// block costs a whole page. Hence blocks are kept among their likes, in this order of addresses:
// - numbers, blocks of one unit of allocation: operators wrap Python's numbers in tensors that they
//   save for backward passes and that nobody can evict, one for each call, so that among other
//   blocks, however small, they would pin all pages;
// - tiny ones: all of them together are few bytes, and most of what stays for ever is tiny;
// - long-lived ones;
// - blocks smaller than a page;
// - the large transient ones, which own nearly all pages and share each end with at most one
//   neighbour.
// Every zone fills from its low end. The zones divide addresses only; all of them take pages from
// the same budget.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "allocator/base/owner.h"

namespace tidepool {

enum class Zone : uint8_t { kNumbers, kTiny, kLongLived, kMedium, kTransient };
inline constexpr size_t kZoneCount = 5;
inline constexpr std::array<Zone, kZoneCount> kZones = {
    Zone::kNumbers, Zone::kTiny, Zone::kLongLived, Zone::kMedium, Zone::kTransient};

// One `Part` for each zone, all made from the same arguments.
template <typename Part, typename... Arguments>
std::array<Part, kZoneCount> one_per_zone(Arguments&&... arguments) {
  return [&]<size_t... k>(std::index_sequence<k...>) {
    return std::array<Part, kZoneCount>{(static_cast<void>(k), Part(arguments...))...};
  }(std::make_index_sequence<kZoneCount>());
}

// The share of each zone in the range, in eighths.
using ZoneShares = std::array<size_t, kZoneCount>;

// Which zones there are, and what goes into which.
struct Placement {
  ZoneShares eighths = {1, 1, 1, 2, 3};
  // Blocks up to the page's bytes >> this are tiny, and those below the page's bytes >> the other
  // medium; 63: none is.
  int tiny_shift = 4, medium_shift = 0;
  bool has_long_lived = true;

  constexpr bool has_numbers() const { return eighths[static_cast<size_t>(Zone::kNumbers)] > 0; }
};

// Numbers lie among other blocks. This is for GPUs, as such numbers are in the host's memory, and
// for budgets that feel the page that the zone takes.
inline constexpr Placement kWithoutNumbers = {.eighths = {0, 1, 1, 2, 4}};
// Apart, as by default, costs up to a partly used page for each zone, and lets more pages be moved;
// where none has to be moved, coarse placement takes less: small blocks, and the others.
inline constexpr Placement kCoarsePlacement = {
    .eighths = kWithoutNumbers.eighths, .tiny_shift = 1, .medium_shift = 63};
// A range that is not divided.
inline constexpr Placement kOneZone = {{0, 0, 0, 0, 8}, 63, 63, false};

// The zone of a request of `bytes`, a multiple of `unit_bytes`.
inline constexpr Zone zone_for(size_t bytes, PlacementHint hint, size_t unit_bytes,
                               size_t page_bytes, const Placement& placement) {
  if (bytes <= unit_bytes && placement.has_numbers()) return Zone::kNumbers;
  if (bytes <= page_bytes >> placement.tiny_shift) return Zone::kTiny;
  if (hint == PlacementHint::kLongLived && placement.has_long_lived) return Zone::kLongLived;
  return bytes < page_bytes >> placement.medium_shift ? Zone::kMedium : Zone::kTransient;
}

}  // namespace tidepool
