// RoomMaker: serves requests that no cached or free block serves at once. It makes attempts in
// order (kAttempts); the last of them, reclaim(), evicts and moves, in one Way after the other.
// Owns the searches for room; not the arena or its pages. Every function requires the device's
// lock, and may release it for a while, in which other threads' requests are served. See
// docs/life-of-an-allocation.md, "Room under the budget" and "Reclaim".
#pragma once

#include <array>

#include "absl/container/inlined_vector.h"
#include "allocator/arena/arena.h"
#include "allocator/arena/page_supply.h"
#include "allocator/block_mover.h"
#include "allocator/search/room_search.h"

namespace tidepool {

class RoomMaker {
 public:
  RoomMaker(Arena& arena, PageSupply& supply);

  // Returns an allocated block for the request. Throws: OutOfMemory; DeviceError if streams cannot
  // be ordered. It is not inlined, because its frame would slow down requests that need no room
  // made.
  [[gnu::noinline]] BlockId make_room(DeviceLock& lock, Request request);
  // Returns an allocated block for a request that is only tried: from what is free, or a window of
  // what may be evicted. kNone: there is none.
  [[gnu::noinline]] BlockId make_quietly(DeviceLock& lock, Request request);
  // The configuration's strategy is told of a request, and says from which end of a free block it
  // is cut. Throws: OutOfMemory.
  [[gnu::noinline]] End admit(DeviceLock& lock, Request request);

  // See BudgetedAllocator::compact().
  size_t compact(DeviceLock& lock, StreamId stream);
  void check_invariants() const { search_.check_invariants(); }

 private:
  // After this many failures of the device a request is refused.
  static constexpr int kDeviceFailures = 3;
  // A request that cannot be served waits for others at most so long, of which a single wait counts
  // as the second at most: the process may have been stopped.
  static constexpr uint64_t kMostWaitNs = 50'000'000'000;
  static constexpr uint64_t kLongestWaitNs = 1'000'000'000;

  using Attempt = Outcome (RoomMaker::*)(DeviceLock&, Request&, BlockId&);
  // The attempts to serve a request, in the order in which they are made.
  static const std::array<Attempt, 7> kAttempts;
  Outcome take_free(DeviceLock& lock, Request& request, BlockId& served);
  Outcome lend_ordered(DeviceLock& lock, Request& request, BlockId& served);
  Outcome commit_pages(DeviceLock& lock, Request& request, BlockId& served);
  Outcome take_free_anywhere(DeviceLock& lock, Request& request, BlockId& served);
  Outcome lend_used(DeviceLock& lock, Request& request, BlockId& served);
  Outcome take_awaiting(DeviceLock& lock, Request& request, BlockId& served);
  Outcome reclaim(DeviceLock& lock, Request& request, BlockId& served);

  // The ways in which reclaim() can make room; ways() says which ones it tries, and in which order.
  enum class Way : uint8_t {
    kFreePages,         // move free pages together
    kShortlist,         // evict among what an earlier search found cheapest
    kEvict,             // evict a window or the occupants of pages, among all blocks
    kEvictAndRemember,  // the same, and make a shortlist of what was seen
    kMove,             // move a window's contents to free places, or evict what is cheaper to evict
    kMoveInOwnZone,    // the same, for a window in the request's own zone only
    kMakePlaces,       // move a window's contents to places that are made by evicting others
    kMakePlacesAgain,  // the same, once that was needed for this request before
    kMakePlacesInOwnZoneAgain,
  };
  using Ways = absl::InlinedVector<Way, 6>;
  Ways ways(const Request& request) const;
  static bool makes_places(Way way) { return way >= Way::kMakePlaces; }
  static bool moves_contents(Way way) { return way >= Way::kMove; }
  RoomPlan find(Way way, const Request& request);
  Outcome try_way(DeviceLock& lock, Way way, Request& request, BlockId& served);
  // Does what the plan says. kNothing: the plan is empty, an owner refused to be evicted, or there
  // was no place to move to.
  Outcome carry_out(DeviceLock& lock, Request& request, const RoomPlan& plan, BlockId& served);

  // Serves the request with a free block of another stream; `ordered`: only with one that need not
  // be waited for.
  Outcome lend(DeviceLock& lock, const Request& request, bool ordered, BlockId& served);
  // Called when all attempts have failed: gives free pages back to the device (once for a request,
  // as `gave_back` remembers), lets the reclaimer give up memory, waits for other threads unless
  // that has taken too long in all (`waited_ns`), or has the device asked again for what it has
  // refused. True: the attempts may succeed now. False: nothing more can be done.
  bool try_last_resorts(DeviceLock& lock, Request& request, bool& gave_back, uint64_t& waited_ns);

  Arena& arena_;
  PageSupply& supply_;
  RoomSearch search_;
  BlockMover mover_;
};

}  // namespace tidepool
