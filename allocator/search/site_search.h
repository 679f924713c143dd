// SiteSearch: finds where new pages for a request should go: the place that needs the fewest, which
// often is the free end of what is committed and the first pages of the hole behind it.
// Owns nothing; reads the arena. Requires the device's lock. Each function takes time proportional
// to the number of holes and the lengths of the runs of free blocks beside them.
#pragma once

#include <cstddef>

#include "allocator/arena/arena.h"

namespace tidepool {

class SiteSearch {
 public:
  // How many sites next() has at most.
  static constexpr size_t kAttempts = 2 * (kZoneCount + 1);

  explicit SiteSearch(const Arena& arena) : arena_(arena) {}

  // The site that needs the fewest pages in the request's zone. Only if that zone has none, others
  // are looked at, the transient zone first, because there the block lies among others that it
  // should be apart from. No site if the best one needs more pages than are at hand.
  Site for_new_pages(const Request& request) const;

  // The site for the given attempt, below kAttempts: for each zone, in the order above, the site
  // that needs the fewest pages, and then a plain hole, which keeps no page from being moved.
  Site next(const Request& request, size_t attempt) const;

 private:
  Site with_fewest_pages(const Request& request, Zone zone) const;
  // The lowest hole that takes the whole request.
  Site lowest_hole(const Request& request, Zone zone) const;
  Site starting_at(const Request& request, BlockId start) const;

  const Arena& arena_;
};

}  // namespace tidepool
