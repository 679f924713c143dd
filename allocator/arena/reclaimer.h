// Reclaimer: what the allocator knows of rematerialization: who owns a block, what evicting it
// would cost, and how long a request is expected to live. Implemented by remat::Runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "allocator/base/device_mutex.h"
#include "allocator/base/origin.h"
#include "allocator/base/owner.h"

namespace tidepool {

// How to make room where pages can move.
// Cheapest: by a window or by pages, whichever costs less; or as kMoves, where a page costs far
// more to map elsewhere than its contents cost to copy. Pages: not by a window; what is cheapest by
// byte goes then, and what it leaves over serves the next requests. Moves: by a window whose
// contents go or move, whichever costs less. Free pages come first where a page costs less than its
// contents, and what is not preferred where nothing else helps.
enum class Preference : uint8_t { kCheapest, kPages, kMoves };

// An allocated block, for the report of a request that failed.
struct HeldBlock {
  const void* address = nullptr;
  Owner owner = nullptr;
  Origin origin;
  // What Reclaimer::tell_uses() says of it, in a user's words: "parameters", "gradients", ...
  std::string use = "allocated";
};

class Reclaimer {
 public:
  virtual ~Reclaimer() = default;

  // Called once at the start of a search, before any price(), with the lock held: the clock that
  // this search's prices use is fixed here.
  virtual void begin_search() = 0;

  // Whether prices depend on `free_beside_bytes`, which is else 0. Never changes.
  virtual bool asks_for_free_beside() const { return false; }

  // Whether a request may be served from what an earlier search found cheapest (Shortlists), at
  // present prices; else every search looks at all blocks. Never changes.
  virtual bool allows_shortlists() const { return false; }

  // Which way to make room for the requests of a search, after begin_search(). Requires: lock held.
  virtual Preference preference() const { return Preference::kCheapest; }

  // `free_beside_bytes`: of the free blocks that touch the owner's.
  // Requires: lock held, `owner` not null.
  virtual Price price(Owner owner, size_t free_beside_bytes = 0) = 0;

  // The price by byte of contents, not rounded: what one-by-one eviction takes the least of.
  // kNever where price() is a barrier. Requires: lock held.
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  virtual double price_per_byte(Owner owner, size_t free_beside_bytes = 0) = 0;

  // Whether the contents may be evicted now, whatever that costs. Requires: lock held.
  virtual bool evictable(Owner owner) { return !price(owner).barrier; }

  // Gives up the contents of `owner`'s block. True: the block belongs to the caller, who takes the
  // owner from it. False: the contents may not be evicted after all, and the block is a barrier for
  // the rest of this search. Never calls back, replays, or releases the lock. Requires: lock held.
  virtual bool evict(Owner owner) = 0;

  // The price of having the contents of `owner`'s block moved to another block instead, in the unit
  // of price(). A barrier where they must stay where they are; that is what there is without
  // anybody who moves. Requires: lock held.
  virtual Price move_price(Owner owner) {
    static_cast<void>(owner);
    return Price::blocked();
  }

  // What copying so many bytes within the device takes, in ns; 0 where nothing is copied.
  // Requires: lock held.
  virtual uint64_t copy_ns(size_t bytes) const {
    static_cast<void>(bytes);
    return 0;
  }

  // What it is worth, in the unit of price(), to be spared spending so much time to make room of
  // `owner`'s block. Requires: lock held; price() is no barrier.
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

  // Nothing in the arena can serve the request now. May release the lock and wait for other
  // threads to finish what they run. True: something changed, search again; false: final.
  // Bounded: returns false at last. Requires: lock held; held again on return.
  virtual bool wait_for_room(DeviceLock& lock) = 0;

  // Says of each block what it is used for now; the calling thread's request has failed.
  // Requires: lock held.
  virtual void tell_uses(std::span<HeldBlock> blocks) = 0;
};

}  // namespace tidepool
