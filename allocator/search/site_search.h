// SiteSearch: finds where new pages for a request would go: the place that needs the fewest, often
// the free end of what is committed and the first pages of the hole behind it.
// Owns nothing; reads the arena. Requires the device's lock. Each function is O(holes · run).
#pragma once

#include <cstddef>

#include "allocator/arena/arena.h"

namespace tidepool {

class SiteSearch {
 public:
  // How many sites next() has at most.
  static constexpr size_t kAttempts = 2 * (kZoneCount + 1);

  explicit SiteSearch(const Arena& arena) : arena_(arena) {}

  // The site that needs the fewest pages in the request's zone. Other zones follow, the transient
  // one first, where there is none: nothing is better than what mixes blocks that should lie apart.
  // No site where the best needs more pages than are at hand.
  Site for_new_pages(const Request& request) const;

  // The site to try in the given attempt, from 0 to kAttempts: per zone, in the order above, the
  // one that needs the fewest pages, then a plain hole, which keeps no page from being moved.
  Site next(const Request& request, size_t attempt) const;

 private:
  Site with_fewest_pages(const Request& request, Zone zone) const;
  // The lowest hole that takes the whole request.
  Site lowest_hole(const Request& request, Zone zone) const;
  Site starting_at(const Request& request, BlockId start) const;

  const Arena& arena_;
};

}  // namespace tidepool
