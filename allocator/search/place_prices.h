// PlacePrices: what it takes to make a place elsewhere for a block that is to move out of a window:
// the price of the second cheapest block, free or evictable, that is large enough. The cheapest one
// is what the window is there for, mostly. Blocks count by classes of size, four for each power of
// two, of each of which the two cheapest are known. An estimate: several blocks that move may have
// the same place in mind. Not thread safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "allocator/search/priced_layout.h"

namespace tidepool {

class PlacePrices {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  void start() { classes_.fill({}); }
  // Adds a block, if it is free or may be evicted.
  void add(const RoomItem& item) {
    if (item.kind != RoomKind::kFree && item.kind != RoomKind::kEvictable) return;
    Class& found = classes_[class_of(item.bytes)];
    Place place{item.price, item.bytes};
    for (Place& each : found) {
      const bool is_better =
          place.price != each.price ? place.price < each.price : place.bytes > each.bytes;
      if (is_better) std::swap(place, each);
    }
  }
  // The price of a place for so many bytes > 0; kNone: there is none.
  uint64_t price(size_t bytes) const {
    uint64_t least = kNone, second = kNone;
    for (size_t k = class_of(bytes); k < classes_.size(); ++k) {
      for (const Place& place : classes_[k]) {
        if (place.bytes < bytes) continue;
        second = std::min(second, std::max(least, place.price));
        least = std::min(least, place.price);
      }
    }
    return second;
  }

 private:
  struct Place {
    uint64_t price = kNone;
    size_t bytes = 0;
  };
  using Class = std::array<Place, 2>;  // the cheaper one first
  static constexpr size_t kBits = 64, kPerBit = 4;

  static size_t class_of(size_t bytes) {
    const auto bit = static_cast<size_t>(std::bit_width(bytes)) - 1;
    return kPerBit * bit + (bit < 2 ? 0 : bytes >> (bit - 2) & (kPerBit - 1));
  }

  std::array<Class, kBits * kPerBit> classes_{};
};

}  // namespace tidepool
