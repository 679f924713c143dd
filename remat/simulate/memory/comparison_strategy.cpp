#include "remat/simulate/memory/comparison_strategy.h"

#include <utility>

#include "allocator/arena/page_supply.h"
#include "allocator/search/room_search.h"

namespace tidepool::remat {

bool ComparisonStrategy::evict_cheapest(Arena& arena, StreamId stream) {
  Heap& heap = arena.heap;
  // In each round but the last a victim refuses to be evicted; it is a barrier from then on, so the
  // loop ends.
  while (true) {
    BlockId cheapest{};
    double least = Reclaimer::kNever;
    walk_.run(heap.blocks(), [&](BlockId id) {
      const Block& block = heap[id];
      if (block.state != BlockState::kAllocated || !arena.may_go(block, stream)) return;
      ++arena.counts.prices;
      const double price = arena.reclaimer->price_per_byte(block.owner, arena.free_beside(id));
      if (!(price < least)) return;
      cheapest = id;
      least = price;
    });
    if (cheapest == BlockId::kNone) return false;
    if (arena.evict(cheapest)) return true;
  }
}

bool ComparisonStrategy::admit(DeviceLock& lock, const RoomParts& parts, Request& request) {
  request.end = std::exchange(end_, End::kLow);
  Arena& arena = parts.arena;
  const size_t limit_bytes = settings_.requested_limit_bytes;
  while (request.asked_bytes > limit_bytes ||
         arena.heap.requested_bytes() > limit_bytes - request.asked_bytes) {
    parts.search.begin();
    if (evict_cheapest(arena, request.stream)) continue;
    if (arena.reclaimer == nullptr || !arena.reclaimer->give_up_or_wait(lock)) return false;
    ++arena.counts.retries;
  }
  return true;
}

std::optional<Outcome> ComparisonStrategy::reclaim(DeviceLock& lock, const RoomParts& parts,
                                                   const Request& request, BlockId& served) {
  if (!settings_.evict_singly) return std::nullopt;
  parts.search.begin();
  const RoomPlan plan = parts.search.unoccupied_pages(request);
  if (const auto* pages = std::get_if<PagesPlan>(&plan)) {
    parts.arena.heap.hold_merging();
    return parts.supply.serve(lock, request, *pages, served);
  }
  return evict_cheapest(parts.arena, request.stream) ? Outcome::kRetry : Outcome::kNothing;
}

}  // namespace tidepool::remat
