// RoomMaker: serves a request that neither a bin nor a free block serves at once. The ways to do so
// stand as lists of attempts, tried in order.
// Owns the searches for room; the arena and its pages are given. Every function requires the
// device's lock, and may release it for a while: other threads' requests are served meanwhile.
// See docs/life-of-an-allocation.md, "Room under the budget" and "Reclaim".
#pragma once

#include <array>

#include "absl/container/inlined_vector.h"
#include "allocator/arena/arena.h"
#include "allocator/arena/page_supply.h"
#include "allocator/block_mover.h"
#include "allocator/one_by_one_eviction.h"
#include "allocator/search/room_search.h"

namespace tidepool {

class RoomMaker {
 public:
  RoomMaker(Arena& arena, PageSupply& supply);

  // An allocated block for the request. Throws: OutOfMemory; DeviceError if streams cannot be
  // ordered. Not inlined: its frame would burden every hit.
  [[gnu::noinline]] BlockId make_room(DeviceLock& lock, Request request);
  // Evicts until the bytes asked for are within the limit on them. Throws: OutOfMemory.
  [[gnu::noinline]] void make_bytes(DeviceLock& lock, const Request& request);

  // See BudgetedAllocator::compact().
  size_t compact(DeviceLock& lock, StreamId stream);
  void check_invariants() const { search_.check_invariants(); }

 private:
  // After this many failures of the device a request is refused.
  static constexpr int kDeviceFailures = 3;
  // A last bound on waiting: the reclaimer's own comes first.
  static constexpr int kWaits = 10000;

  using Attempt = Outcome (RoomMaker::*)(DeviceLock&, Request&, BlockId&);
  // In the order in which they are tried for a request.
  static const std::array<Attempt, 7> kAttempts;
  Outcome take_free(DeviceLock& lock, Request& request, BlockId& served);
  Outcome lend_ordered(DeviceLock& lock, Request& request, BlockId& served);
  Outcome commit_pages(DeviceLock& lock, Request& request, BlockId& served);
  Outcome take_free_anywhere(DeviceLock& lock, Request& request, BlockId& served);
  Outcome lend_used(DeviceLock& lock, Request& request, BlockId& served);
  Outcome take_awaiting(DeviceLock& lock, Request& request, BlockId& served);
  Outcome reclaim(DeviceLock& lock, Request& request, BlockId& served);

  // What reclaim() tries, in the order that ways() says.
  enum class Way : uint8_t {
    kFreePages,         // move free pages together
    kShortlist,         // evict among what an earlier search found cheapest
    kEvict,             // evict a window or the occupants of pages, among all blocks
    kEvictAndRemember,  // the same, and make a shortlist of what was seen
    // Move the contents of a window, or evict them where that is cheaper:
    kMove,           // in any zone, to free places
    kMoveInOwnZone,  // where a window in another zone has to wait until pages were tried
    // The same, to places that are made by evicting:
    kMakePlaces,
    kMakePlacesAgain,  // was needed for this request before
    kMakePlacesInOwnZoneAgain,
  };
  using Ways = absl::InlinedVector<Way, 6>;
  Ways ways(const Request& request) const;
  static bool makes_places(Way way) { return way >= Way::kMakePlaces; }
  static bool moves_contents(Way way) { return way >= Way::kMove; }
  RoomPlan find(Way way, const Request& request);
  Outcome try_way(DeviceLock& lock, Way way, Request& request, BlockId& served);
  // kNothing: there is no plan, a victim was refused, or there was no place to move to.
  Outcome carry_out(DeviceLock& lock, Request& request, const RoomPlan& plan, BlockId& served);

  // A free block of another stream; `ordered`: only one that need not be waited for.
  Outcome lend(DeviceLock& lock, const Request& request, bool ordered, BlockId& served);
  // Waits for what other threads, or the device, may free, or has the device asked again for what
  // it has refused. False: nothing more can be done. The flags say what was done for the request.
  bool wait_for_room(DeviceLock& lock, bool& gave_back, bool& asked_again);

  Arena& arena_;
  PageSupply& supply_;
  RoomSearch search_;
  BlockMover mover_;
  OneByOneEviction one_by_one_;
};

}  // namespace tidepool
