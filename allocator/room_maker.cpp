#include "allocator/room_maker.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "allocator/arena/room_strategy.h"
#include "allocator/base/steady_clock.h"
#include "allocator/compaction.h"
#include "allocator/shortage.h"

namespace tidepool {

RoomMaker::RoomMaker(Arena& arena, PageSupply& supply)
    : arena_(arena), supply_(supply), search_(arena), mover_(arena, search_) {}

// New pages come before memory that other streams still use: a commit costs time once, while
// waiting for another stream costs time again and again.
const std::array<RoomMaker::Attempt, 7> RoomMaker::kAttempts = {
    &RoomMaker::take_free,    &RoomMaker::lend_ordered,
    &RoomMaker::commit_pages, &RoomMaker::take_free_anywhere,
    &RoomMaker::lend_used,    &RoomMaker::take_awaiting,
    &RoomMaker::reclaim,
};

BlockId RoomMaker::make_room(DeviceLock& lock, Request request) {
  BlockId served{};
  int device_failures = 0;
  bool gave_back = false;
  (void)arena_.pages.device_limit().ask_again();
  uint64_t waited_ns = 0;
  while (request.bytes <= arena_.config.range_bytes) {
    arena_.poll(lock, request.stream);
    arena_.merge_free_blocks();
    Outcome outcome = Outcome::kNothing;
    for (const Attempt attempt : kAttempts) {
      outcome = (this->*attempt)(lock, request, served);
      if (outcome != Outcome::kNothing) break;
    }
    switch (outcome) {
      case Outcome::kServed:
        return served;
      case Outcome::kRetry:
        continue;
      case Outcome::kOrderFailed:
        if (++device_failures > kDeviceFailures) throw DeviceError(arena_.streams.error());
        continue;
      case Outcome::kDeviceRefused:  // there are fewer pages to be had: room is made among them
        continue;
      case Outcome::kDeviceFailed:
        if (++device_failures > kDeviceFailures) break;
        request.device_failed = true;
        supply_.give_back(lock);
        continue;
      case Outcome::kNothing:
        if (try_last_resorts(lock, request, gave_back, waited_ns)) continue;
        break;
    }
    break;
  }
  throw OutOfMemory(report_shortage(arena_, search_, request));
}

BlockId RoomMaker::make_quietly(DeviceLock& lock, Request request) {
  BlockId served = BlockId::kNone;
  arena_.poll(lock, request.stream);
  arena_.merge_free_blocks();
  for (const Attempt attempt : kAttempts) {
    if (attempt == &RoomMaker::lend_used) break;  // the rest waits, or evicts
    const Outcome outcome = (this->*attempt)(lock, request, served);
    if (outcome == Outcome::kServed) return served;
    if (outcome != Outcome::kNothing) return BlockId::kNone;
  }
  if (arena_.reclaimer == nullptr || !arena_.config.allow_windows) return BlockId::kNone;
  search_.begin();
  const RoomPlan plan = search_.window_of_evictions(request, {});
  const auto* const window = std::get_if<WindowPlan>(&plan);
  if (window == nullptr) return BlockId::kNone;
  const Outcome outcome = arena_.take_window(lock, request, *window, served);
  return outcome == Outcome::kServed ? served : BlockId::kNone;
}

bool RoomMaker::try_last_resorts(DeviceLock& lock, Request& request, bool& gave_back,
                                 uint64_t& waited_ns) {
  const bool may_wait = waited_ns < kMostWaitNs;
  const uint64_t start = steady_now_ns();
  const absl::Cleanup count = [&] {
    waited_ns += std::min(steady_now_ns() - start, kLongestWaitNs);
  };
  if (may_wait && arena_.calls.any()) {  // pages are on their way: of another thread's request
    ++arena_.counts.retries;
    arena_.calls.wait_for_one(lock);
    return true;
  }
  // Giving pages back helps where free pages cannot be moved, are quarantined, or are shared by
  // free blocks that wait for different streams.
  if (!std::exchange(gave_back, true)) {
    const size_t unsettled = arena_.heap.unpassed().size() + arena_.heap.awaited().size();
    if (supply_.give_back(lock) > 0) return true;
    if (unsettled > 0 && arena_.streams.can_order()) return true;
  }
  if (may_wait && arena_.reclaimer != nullptr && arena_.reclaimer->give_up_or_wait(lock)) {
    ++arena_.counts.retries;
    return true;
  }
  // Others may have given memory back since the device refused it.
  if (!arena_.pages.device_limit().is_set() || std::exchange(request.takes_reserve, true))
    return false;
  arena_.pages.device_limit().lift();
  return true;
}

Outcome RoomMaker::take_free(DeviceLock&, Request& request, BlockId& served) {
  served = arena_.heap.take_free(request.zone, request.bytes, request.stream, request.end);
  return served == BlockId::kNone ? Outcome::kNothing : Outcome::kServed;
}

Outcome RoomMaker::lend_ordered(DeviceLock& lock, Request& request, BlockId& served) {
  return lend(lock, request, true, served);
}

Outcome RoomMaker::lend_used(DeviceLock& lock, Request& request, BlockId& served) {
  return lend(lock, request, false, served);
}

Outcome RoomMaker::lend(DeviceLock& lock, const Request& request, bool ordered, BlockId& served) {
  Heap& heap = arena_.heap;
  const bool one_stream = arena_.streams.clocks().stream_count() == 1;
  if (one_stream || (!ordered && !arena_.streams.can_order())) return Outcome::kNothing;
  const BlockId id = heap.find_lendable(request.zone, request.bytes, request.stream, ordered);
  if (id == BlockId::kNone) return Outcome::kNothing;
  Claim claim;
  const size_t begin = heap[id].offset;
  claim.block = heap.claim(id, begin, begin + request.bytes, &claim.uses);
  const Outcome outcome = arena_.serve_claim(lock, request, claim, served);
  arena_.counts.lent += outcome == Outcome::kServed;
  return outcome;
}

Outcome RoomMaker::commit_pages(DeviceLock& lock, Request& request, BlockId& served) {
  return carry_out(lock, request, search_.new_pages(request), served);
}

// Zones keep blocks apart so that pages can move; where they cannot, any zone will do.
Outcome RoomMaker::take_free_anywhere(DeviceLock&, Request& request, BlockId& served) {
  if (arena_.config.allow_remap) return Outcome::kNothing;
  for (Zone zone : kZones) {
    served = arena_.heap.take_free(zone, request.bytes, request.stream, request.end);
    if (served != BlockId::kNone) return Outcome::kServed;
  }
  return Outcome::kNothing;
}

// Takes a block that other streams may still use, and has the request's stream wait for them.
Outcome RoomMaker::take_awaiting(DeviceLock& lock, Request& request, BlockId& served) {
  Heap& heap = arena_.heap;
  if (!arena_.streams.can_order()) return Outcome::kNothing;
  const BlockId id = heap.find_awaiting(request.zone, request.bytes);
  if (id == BlockId::kNone) return Outcome::kNothing;
  // The whole block is claimed, because its rest has been waited for as well.
  Claim claim;
  claim.block = heap.claim(id, heap[id].offset, heap[id].end(), &claim.uses);
  const Outcome outcome = arena_.serve_claim(lock, request, claim, served);
  arena_.counts.lent += outcome == Outcome::kServed;
  return outcome;
}

RoomMaker::Ways RoomMaker::ways(const Request& request) const {
  Ways ways;
  const bool quick = search_.is_quick(request);
  // Places were made for this request before, because there were no free ones.
  const bool again = request.evicts_for_places;
  const bool moves_first = search_.moves_come_first(request);
  const bool dear = moves_first && arena_.can_move_pages() && search_.pages_are_dear(request);
  const bool trades = moves_first && request.trades_places;
  if (trades || dear) {
    if (quick && !dear) ways.push_back(Way::kFreePages);
    if (!again && !trades) ways.push_back(Way::kMove);
    ways.insert(ways.end(), {again ? Way::kMakePlacesAgain : Way::kMakePlaces, Way::kEvict});
    return ways;
  }
  if (quick) ways.push_back(Way::kFreePages);
  if (!moves_first) {
    if (quick) ways.push_back(Way::kShortlist);
    ways.push_back(quick ? Way::kEvictAndRemember : Way::kEvict);
    ways.insert(ways.end(), {Way::kMove, Way::kMakePlaces});
  } else if (arena_.can_move_pages()) {
    ways.push_back(again ? Way::kMakePlacesInOwnZoneAgain : Way::kMoveInOwnZone);
    ways.insert(ways.end(), {Way::kEvict, Way::kMakePlaces});
  } else if (again) {
    ways.push_back(Way::kMakePlacesAgain);
  } else {
    ways.insert(ways.end(), {Way::kMove, Way::kMakePlaces});
  }
  return ways;
}

RoomPlan RoomMaker::find(Way way, const Request& request) {
  switch (way) {
    case Way::kFreePages:
      return search_.free_pages(request);
    case Way::kShortlist:
      return search_.shortlisted(request);
    case Way::kEvict:
      return search_.evictions(request, false);
    case Way::kEvictAndRemember:
      return search_.evictions(request, true);
    case Way::kMoveInOwnZone:
    case Way::kMakePlacesInOwnZoneAgain:
      return search_.window_with_moves(request, WindowZones::kOwn);
    case Way::kMove:
    case Way::kMakePlaces:
    case Way::kMakePlacesAgain:
      return search_.window_with_moves(request, WindowZones::kOwnFirst);
  }
  return {};
}

Outcome RoomMaker::reclaim(DeviceLock& lock, Request& request, BlockId& served) {
  if (RoomStrategy* const strategy = arena_.config.strategy) {
    const auto outcome = strategy->reclaim(lock, {arena_, supply_, search_}, request, served);
    if (outcome) return *outcome;
  }
  search_.begin();
  request.trades_places =
      arena_.reclaimer != nullptr && arena_.reclaimer->preference() == Preference::kPlaces;
  for (const Way way : ways(request)) {
    if (moves_contents(way)) {
      if (!search_.can_move_contents(request)) continue;
      request.evicts_for_places = makes_places(way);
      if (way == Way::kMakePlaces) request.move_limit_bytes = SIZE_MAX;
    }
    const Outcome outcome = try_way(lock, way, request, served);
    if (outcome != Outcome::kNothing) return outcome;
  }
  return Outcome::kNothing;
}

Outcome RoomMaker::try_way(DeviceLock& lock, Way way, Request& request, BlockId& served) {
  // In each round but the last an owner refuses, whose block is a barrier from then on, or there is
  // no place for a block to move to.
  while (true) {
    // Once its moves are spent a request can only evict.
    if (moves_contents(way) && !search_.can_move_contents(request)) way = Way::kEvict;
    const RoomPlan plan = find(way, request);
    if (std::holds_alternative<std::monostate>(plan)) return Outcome::kNothing;
    const Outcome outcome = carry_out(lock, request, plan, served);
    const bool shortlisted = way == Way::kShortlist;
    arena_.counts.shortlisted += shortlisted && outcome == Outcome::kServed;
    if (outcome != Outcome::kNothing || shortlisted) return outcome;
  }
}

Outcome RoomMaker::carry_out(DeviceLock& lock, Request& request, const RoomPlan& plan,
                             BlockId& served) {
  if (const auto* window = std::get_if<WindowPlan>(&plan)) {
    return arena_.take_window(lock, request, *window, served);
  }
  if (const auto* moves = std::get_if<MovesPlan>(&plan)) {
    return mover_.empty_window(lock, request, *moves);
  }
  if (const auto* pages = std::get_if<PagesPlan>(&plan)) {
    if (arena_.evict_all(pages->victims)) return supply_.serve(lock, request, *pages, served);
    arena_.heap.flush();
  }
  return Outcome::kNothing;
}

End RoomMaker::admit(DeviceLock& lock, Request request) {
  const RoomParts parts{arena_, supply_, search_};
  if (arena_.config.strategy->admit(lock, parts, request)) return request.end;
  throw OutOfMemory(report_shortage(arena_, search_, request));
}

size_t RoomMaker::compact(DeviceLock& lock, StreamId stream) {
  return tidepool::compact(lock, arena_, mover_, stream);
}

}  // namespace tidepool
