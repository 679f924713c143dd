// BudgetedAllocator: a caching allocator over one device's range of addresses whose committed pages
// never exceed the budget at any instant. When a request does not fit it evicts, through the
// Reclaimer, the cheapest contiguous window of blocks, or scattered blocks whose pages it remaps
// under fresh addresses, and hands out exactly that range.
// Owns the arena (range, pages, blocks) and what serves requests from it; does not own the
// AddressSpace, the mutex or the reclaimer. Thread safe, but for the functions that say "Requires:
// lock held".
// Invariants: (1) committed_bytes() <= budget, also while pages are being committed or moved; (2)
// blocks tile every committed run in address order, and the free index holds exactly the free
// blocks; (3) a claimed range is handed to its claimer and to nobody else; (4) no device call
// (AddressSpace) is made with the lock held. See docs/life-of-an-allocation.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "allocator/arena/allocator_config.h"
#include "allocator/arena/out_of_memory.h"
#include "allocator/arena/reclaimer.h"
#include "allocator/base/allocator_observer.h"
#include "allocator/base/allocator_statistics.h"
#include "allocator/locks/device_mutex.h"
#include "allocator/streams/stream_clocks.h"
#include "allocator/streams/stream_order.h"

namespace tidepool {

class AddressSpace;

class BudgetedAllocator {
 public:
  // Throws: std::invalid_argument naming the field; DeviceError if the range cannot be reserved.
  BudgetedAllocator(AddressSpace& space, DeviceMutex& mutex, const AllocatorConfig& config);
  ~BudgetedAllocator();

  // May be called once, before the first request that needs reclaiming.
  void set_reclaimer(Reclaimer* reclaimer);

  // Sets the order of a device's streams, if it has more than one, or if the host runs ahead of its
  // work. May be called once, before the first request.
  void set_stream_order(StreamOrder* order);

  // Sets who hears of all changes. May be called before the first request.
  void set_observer(AllocatorObserver* observer);

  // Returns the address of a block of at least `bytes` > 0 bytes, aligned to config.alignment,
  // with no owner. Work that `stream` gets from now on may use it at once. Throws: OutOfMemory;
  // DeviceError if streams cannot be ordered. Takes the lock; must not be held.
  void* allocate(size_t bytes, PlacementHint hint = PlacementHint::kTransient,
                 StreamId stream = StreamId::kDefault);

  // Does as allocate() where a free block of that stream serves the request as it is; nullptr where
  // something would have to be done for it. Fills nothing with poison. Requires: lock held.
  void* allocate_free_locked(size_t bytes, PlacementHint hint, StreamId stream);
  // Does so also where memory only has to be ordered or committed for it, or a window of blocks
  // may be evicted at present; nullptr otherwise. Requires: lock held; it may be released for a
  // while.
  void* allocate_window_locked(size_t bytes, PlacementHint hint, StreamId stream, DeviceLock& lock);

  // Says that work on the stream `user` uses the block, too. After the block is freed, it is not
  // handed out again before the work that this stream has been given by then has run. Takes the
  // lock.
  void record_stream(void* address, StreamId user);
  // record_stream() for a caller who holds the lock.
  void record_stream_locked(void* address, StreamId user);
  // Says that the block is used, too, but on the stream of `use` no longer than that says: once it
  // is freed, nobody waits for what the stream is given later. Requires: lock held.
  void record_use_locked(void* address, StreamUse use);

  // Streams whose work so far is all that uses the block: its own, and those recorded, but for uses
  // after which its own stream has been ordered. Requires: lock held.
  std::vector<StreamId> users(const void* address) const;

  // A use of memory that ends with all the work that `stream` has been given so far. It stands for
  // work on a block that the block's user does not know of. Requires: lock held.
  StreamUse use_so_far(StreamId stream);
  // Has who waits for the stream's uses so far wait for `fence` only, which was recorded after the
  // work of all of them. Requires: lock held.
  void close_uses_locked(StreamId stream, std::shared_ptr<Fence> fence);
  // Makes the work that `stream` gets from now on run after `use`. Throws: DeviceError, also while
  // suspended. Requires: lock held; it is released while the device is told.
  void order_after(StreamId stream, StreamUse use, DeviceLock& lock);
  // The same for all uses so far. Does nothing while suspended.
  void order_after_all(StreamId stream, DeviceLock& lock);
  // Has the host wait until the use has passed, for streams that nobody knows, which come after
  // that. Does nothing while suspended. Throws: DeviceError. Requires: lock held; it is released
  // meanwhile.
  void wait_for(StreamUse use, DeviceLock& lock);

  // Frees an allocated block by its start address. free() takes the lock.
  void free(void* address);
  // Frees a block, and aborts unless it was asked for with exactly `bytes` on `stream`. Takes the
  // lock.
  void free_checked(void* address, size_t bytes, StreamId stream);
  // free() for a caller who holds the lock.
  void free_locked(void* address);

  // True if `address` lies in this allocator's range. Lock-free.
  bool contains(const void* address) const;
  // The distance from the start of the range to `address`, which lies in it. Lock-free.
  size_t offset(const void* address) const;

  // The owner of the allocated block that starts at `address`, which lies in the range; nullptr if
  // there is no such block, or it has none. O(1). Requires: lock held.
  Owner owner(const void* address) const;
  // Of the allocated block that starts at `address`, which has to be one. Requires: lock held.
  void set_owner(void* address, Owner owner);
  // The place where the block's owner is kept, for reading and writing. The reference is valid
  // while the lock is held.
  Owner& owner_slot(void* address);
  size_t block_bytes(const void* address) const;
  StreamId stream(const void* address) const;

  // Why `address` is not the start of an allocated block, naming it; "" if it is. Every function
  // above that takes an address of a block aborts with this text. Takes the lock.
  std::string misuse(const void* address) const;

  // Suspends the order of streams, for the capture of a graph: no fence is recorded, asked or
  // waited for, no stream is made to wait, and memory that would need any of this is not handed
  // out. Calls nest: it has to be resumed as often as it was suspended. Both take the lock.
  // Once suspended, no call of another thread's is under way.
  void suspend_stream_order();
  void resume_stream_order();
  bool is_stream_order_suspended() const;  // takes the lock

  // Gives every wholly free page back to the device, once all work on freed blocks is done. Evicts
  // and frees nothing. Returns the bytes given back.
  size_t give_back_free_pages();

  // Moves small blocks that may not be evicted from pages that they alone keep to gaps in other
  // pages, as far as the reclaimer moves contents of blocks of `stream`, which is the calling
  // thread's. Meant for moments when little is in use. Returns how many more pages hold nothing
  // that has to stay. Requires: lock held; it is released for a while. O(blocks + pages · free
  // blocks).
  size_t compact(DeviceLock& lock, StreamId stream);

  // Limits what is held from the device to `bytes`, or to the budget if that is less; for budgets
  // that are shared with others. Gives free pages back first. Returns the limit in force: if more
  // than `bytes` are still held, it is what is held, and goes down to `bytes` with that. Takes the
  // lock.
  size_t set_limit(size_t bytes);

  // All blocks in address order. Takes the lock.
  std::vector<BlockView> blocks() const;

  // Drops the budget and ends all evictions in a forked child, whose pages are copies of its own.
  // Requires: no other thread in this process uses the allocator.
  void become_forked_child();

  // The handlers for pthread_atfork(). before_fork() takes the lock and waits until no device call
  // is under way. The other two release the lock; in the child, the allocator becomes a forked
  // child's.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  AllocatorStatistics statistics() const;  // takes the lock
  uint64_t misses() const;                 // requests that no free block could serve; lock-free
  uint64_t remap_ns_per_page() const;      // what moving a page costs, as known now; lock-free
  uint64_t drain_ns() const;               // what the wait before pages move costs; likewise
  size_t committed_bytes() const;          // takes the lock
  size_t page_bytes() const;               // constant
  size_t allocated_bytes() const;          // requires: lock held
  size_t limit_bytes() const;              // see AllocatorStatistics; requires: lock held
  uint64_t prices() const;                 // that searches asked for; requires: lock held
  uint32_t allocations() const;            // as Origin::serial counts; requires: lock held
  DeviceMutex& mutex() { return mutex_; }

  // Checks (1) to (3) and every structure; aborts with values and place. Takes the lock.
  void check_invariants() const;

 private:
  struct Parts;

  DeviceMutex& mutex_;
  const bool poison_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidepool
