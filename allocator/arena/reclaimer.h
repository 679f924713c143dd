// Reclaimer: the interface through which the allocator makes room: it says what evicting or moving
// a block's contents would cost, and evicts or moves them. remat::Runtime implements it; the
// allocator knows nothing else of rematerialization.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "allocator/base/origin.h"
#include "allocator/base/owner.h"
#include "allocator/locks/device_mutex.h"

namespace tidepool {

// Which way to make room is preferred where pages can move.
// kCheapest: a window or pages, whichever costs less; or as kMoves, where mapping a page elsewhere
// costs far more than copying its contents. kPages: pages, even if a window costs less. Then the
// contents that are cheapest by byte go, and what they leave over serves the next requests. kMoves:
// a window, whose contents are evicted or moved, whichever costs less. kPlaces: the same, but
// others are evicted elsewhere to make places for what moves, where that is cheaper than what lies
// in the way. In all cases free pages come first where moving a page costs less than its contents,
// and a way that is not preferred is taken where no other one helps.
enum class Preference : uint8_t { kCheapest, kPages, kMoves, kPlaces };

// An allocated block, for the report of a request that failed.
struct HeldBlock {
  const void* address = nullptr;
  Owner owner = nullptr;
  Origin origin;
  // What the block is used for, in a user's words ("parameters", "gradients", ...), as
  // Reclaimer::tell_uses() says.
  std::string use = "allocated";
};

class Reclaimer {
 public:
  virtual ~Reclaimer() = default;

  // Called once at the start of a search, before any price(): fixes the clock that the prices of
  // this search use. Requires: lock held.
  virtual void begin_search() = 0;

  // Whether prices depend on `free_beside_bytes`; if not, the allocator passes 0. Never changes.
  virtual bool asks_for_free_beside() const { return false; }

  // Whether a search may look, at present prices, only at the blocks that an earlier search found
  // cheapest (Shortlists). If not, every search looks at all blocks. Never changes.
  virtual bool allows_shortlists() const { return false; }

  // Whether the contents may be on a shortlist, which lasts the longer and holds the more, the more
  // blocks it is chosen from: those that are evicted for want of others only make it stale.
  virtual bool may_be_shortlisted(Owner owner) const {
    static_cast<void>(owner);
    return true;
  }

  // Which way of making room this search prefers. Requires: begin_search() was called; lock held.
  virtual Preference preference() const { return Preference::kCheapest; }

  // The price of evicting the contents of `owner`'s block. `free_beside_bytes`: the bytes of the
  // free blocks that touch it. Requires: lock held, `owner` not null.
  virtual Price price(Owner owner, size_t free_beside_bytes = 0) = 0;

  // The price divided by the bytes of the contents, not rounded, which one-by-one eviction
  // compares; kNever where price() is a barrier. Requires: lock held.
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  virtual double price_per_byte(Owner owner, size_t free_beside_bytes = 0) = 0;

  // Whether the contents may be evicted now, whatever that costs. Requires: lock held.
  virtual bool evictable(Owner owner) { return !price(owner).barrier; }

  // Gives up the contents of `owner`'s block. True: the block belongs to the caller, who takes the
  // owner from it. False: the contents may not be evicted after all, and the block is a barrier for
  // the rest of this search. Never calls back, replays, or releases the lock. Requires: lock held.
  virtual bool evict(Owner owner) = 0;

  // The price, in the unit of price(), of moving the contents of `owner`'s block to another block.
  // A barrier: they must stay where they are, as all do by default. Requires: lock held.
  virtual Price move_price(Owner owner) {
    static_cast<void>(owner);
    return Price::blocked();
  }

  // How long copying so many bytes within the device takes, in ns; 0 where nothing is ever copied.
  // Requires: lock held.
  virtual uint64_t copy_ns(size_t bytes) const {
    static_cast<void>(bytes);
    return 0;
  }

  // The price, in the unit of price(), of spending `ns` to make room of `owner`'s block.
  // Requires: lock held; price() is no barrier.
  virtual uint64_t time_price(Owner owner, uint64_t ns) {
    static_cast<void>(owner), static_cast<void>(ns);
    return 0;
  }

  // Copies the contents of `owner`'s block to the block at `to`, which has no owner yet, on the
  // calling thread's stream, and makes that the owner's block; the old one belongs to the caller
  // then, without an owner. May release the lock meanwhile. False: nothing has moved.
  // Requires: lock held; move_price() is no barrier.
  virtual bool move(DeviceLock& lock, Owner owner, void* to) {
    static_cast<void>(lock), static_cast<void>(owner), static_cast<void>(to);
    return false;
  }

  // Called when nothing in the arena can serve a request. Gives up memory that the reclaimer keeps
  // for its own sake (bytes that only make other contents evictable, ghosts of a restoration); if
  // it has none, it may release the lock and wait for other threads to finish what they run. True:
  // something has changed, and a new search may succeed. False: nothing will change; this is the
  // answer after a bounded number of calls. Requires: lock held; it is held again on return.
  virtual bool give_up_or_wait(DeviceLock& lock) = 0;

  // Enters for each block what it is used for now, after the calling thread's request has failed.
  // Requires: lock held.
  virtual void tell_uses(std::span<HeldBlock> blocks) = 0;
};

}  // namespace tidepool
