#include "allocator/one_by_one_eviction.h"

namespace tidepool {

bool OneByOneEviction::evict_cheapest(StreamId stream) {
  Heap& heap = arena_.heap;
  // In each round but the last an owner refuses, whose block is a barrier from then on.
  while (true) {
    BlockId cheapest{};
    double least = Reclaimer::kNever;
    walk_.run(heap.blocks(), [&](BlockId id) {
      const Block& block = heap[id];
      if (block.state != BlockState::kAllocated || !arena_.may_go(block, stream)) return;
      ++arena_.counts.prices;
      const double price = arena_.reclaimer->price_per_byte(block.owner, arena_.free_beside(id));
      if (!(price < least)) return;
      cheapest = id;
      least = price;
    });
    if (cheapest == BlockId::kNone) return false;
    if (arena_.evict(cheapest)) return true;
  }
}

Outcome OneByOneEviction::serve(DeviceLock& lock, const Request& request, PageSupply& supply,
                                BlockId& served) {
  search_.begin();
  const RoomPlan plan = search_.unoccupied_pages(request);
  if (const auto* pages = std::get_if<PagesPlan>(&plan)) {
    arena_.heap.hold_merging();
    return supply.fill(lock, request, *pages, served);
  }
  return evict_cheapest(request.stream) ? Outcome::kRetry : Outcome::kNothing;
}

bool OneByOneEviction::make_bytes(DeviceLock& lock, const Request& request) {
  const size_t limit_bytes = arena_.config.requested_limit_bytes;
  while (request.asked_bytes > limit_bytes ||
         arena_.heap.requested_bytes() > limit_bytes - request.asked_bytes) {
    search_.begin();
    if (evict_cheapest(request.stream)) continue;
    if (arena_.reclaimer == nullptr || !arena_.reclaimer->wait_for_room(lock)) return false;
    ++arena_.counts.retries;
  }
  return true;
}

}  // namespace tidepool
