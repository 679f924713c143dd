#include "allocator/search/site_search.h"

#include <algorithm>

namespace tidepool {

Site SiteSearch::starting_at(const Request& request, BlockId start) const {
  const Heap& heap = arena_.heap;
  const size_t bytes = request.bytes;
  const size_t page_bytes = arena_.page_bytes();
  Site site{start, heap[start].offset, 0, 0};
  size_t covered = 0;
  for (BlockId id = start; id != BlockId::kNone; id = heap[id].next) {
    const Block& block = heap[id];
    if (block.zone != heap[start].zone) return {};
    const size_t taken = std::min(bytes - covered, block.bytes);
    if (block.state == BlockState::kHole) {
      const size_t pages = (taken + page_bytes - 1) / page_bytes;
      site.pages_needed += pages;
      site.claim_end = block.offset + pages * page_bytes;
    } else if (block.state == BlockState::kFree && arena_.is_ready(request.stream, block)) {
      site.claim_end = block.offset + taken;
    } else {
      return {};
    }
    covered += taken;
    if (covered < bytes) continue;
    // New pages are whole, so what the last one has to spare may as well lie before the request.
    const size_t spare = site.claim_end - site.begin - bytes;
    site.begin = heap.start_within(site.begin, spare, bytes, End::kLow);
    while (heap[site.first].end() <= site.begin) site.first = heap[site.first].next;
    return site;
  }
  return {};
}

Site SiteSearch::with_fewest_pages(const Request& request, Zone zone) const {
  const Heap& heap = arena_.heap;
  Site best;
  auto consider = [&](const Site& site) {
    if (site.pages_needed == 0) return;
    if (best.pages_needed == 0 || site.pages_needed < best.pages_needed ||
        (site.pages_needed == best.pages_needed && site.begin < best.begin)) {
      best = site;
    }
  };
  for (BlockId id = heap.first_hole(zone); id != BlockId::kNone; id = heap[id].link_next) {
    const BlockId previous = heap[id].previous;
    const bool lead = previous != BlockId::kNone && heap[previous].state == BlockState::kFree &&
                      heap[previous].zone == zone;
    if (lead) consider(starting_at(request, previous));
    consider(starting_at(request, id));
  }
  return best;
}

Site SiteSearch::lowest_hole(const Request& request, Zone zone) const {
  const Heap& heap = arena_.heap;
  Site best;
  for (BlockId id = heap.first_hole(zone); id != BlockId::kNone; id = heap[id].link_next) {
    if (heap[id].bytes < request.bytes) continue;
    if (best.pages_needed == 0 || heap[id].offset < best.begin) best = starting_at(request, id);
  }
  return best;
}

Site SiteSearch::next(const Request& request, size_t attempt) const {
  Zone zone = request.zone;
  if (attempt >= 2) zone = kZones[kZoneCount - attempt / 2];
  return attempt % 2 == 0 ? with_fewest_pages(request, zone) : lowest_hole(request, zone);
}

Site SiteSearch::for_new_pages(const Request& request) const {
  for (size_t attempt = 0; attempt < kAttempts; attempt += 2) {
    const Site site = next(request, attempt);
    if (site.pages_needed == 0) continue;  // no room for it in that zone
    return site.pages_needed > arena_.pages_at_hand() ? Site{} : site;
  }
  return {};
}

}  // namespace tidepool
