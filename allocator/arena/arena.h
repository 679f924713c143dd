// Arena: the memory of one device as the parts of its allocator share it: the range of addresses,
// tiled by blocks, the pages under it, the streams that use it, who reclaims and who observes, and
// the counts; with the few operations on it that several parts need. It decides nothing.
// Owns the range, the blocks and the books of pages; not the AddressSpace, the reclaimer or the
// observer. Every function requires the device's lock; those that take a DeviceLock& may release it
// for a while.
// Invariants: those of Heap and PageTable, and (1) committed bytes <= budget; (3) claimed blocks
// are those of device calls in flight. See docs/life-of-an-allocation.md.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allocator/arena/allocator_config.h"
#include "allocator/arena/reclaimer.h"
#include "allocator/arena/request.h"
#include "allocator/arena/room_plan.h"
#include "allocator/base/allocator_observer.h"
#include "allocator/base/allocator_statistics.h"
#include "allocator/base/calls_in_flight.h"
#include "allocator/heap/heap.h"
#include "allocator/space/address_space.h"
#include "allocator/space/page_table.h"
#include "allocator/streams/stream_sequencer.h"

namespace tidepool {

// A block that is being given to a request, or taken from; nobody else's until it is settled.
struct Claim {
  BlockId block{};
  StreamUses uses;  // that have to pass before its bytes may be used
};

struct Arena {
  // Throws: std::invalid_argument naming the setting; DeviceError if the range cannot be reserved.
  Arena(AddressSpace& space, const AllocatorConfig& config);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  AddressSpace& space;
  const AllocatorConfig config;  // completed()
  const Address base;            // of the range
  AllocatorStatistics counts;
  CallsInFlight calls;
  StreamSequencer streams{calls, counts};
  Heap heap;
  PageTable pages;
  Reclaimer* reclaimer = nullptr;
  bool prices_free_beside = false;  // what the reclaimer says, and never changes
  AllocatorObserver* observer = nullptr;
  // Counts searches: a block whose eviction was refused in this one is not asked for again in it.
  uint32_t search_number = 0;
  // What moving a page costs, in ns; measured as pages move where the settings ask for that.
  std::atomic<double> remap_ns_per_page = 0;

  void set_reclaimer(Reclaimer* whoever);
  void set_observer(AllocatorObserver* whoever);
  // Requests of the stream may come.
  void register_stream(StreamId stream) {
    if (!streams.clocks().knows(stream)) [[unlikely]]
      add_stream(stream);
  }

  size_t page_bytes() const { return config.page_bytes; }
  size_t committed_bytes() const { return pages.committed() * config.page_bytes; }
  size_t limit_bytes() const { return pages.attainable() * page_bytes(); }
  // Pages that a request can have without taking them from anywhere else.
  size_t pages_at_hand() const { return pages.headroom() + pages.spare_count(); }
  // Moving a page needs a wait for what used it.
  bool can_move_pages() const { return config.allow_remap && !streams.is_suspended(); }

  Address address_of(BlockId id) const { return base + heap[id].offset; }
  size_t offset_of(const void* address) const { return Address::of(address) - base; }
  // The allocated block that starts at `address`; aborts where there is none, the caller's bug.
  BlockId block_at(const void* address) const {
    const BlockId id = heap.allocated_at(offset_of(address));
    if (id == BlockId::kNone) [[unlikely]]
      refuse_address(address);
    return id;
  }
  bool contains(const void* address) const {
    return Address::of(address).value - base.value < heap.range_bytes();
  }
  // Why `address` is not the start of an allocated block, or "". O(blocks) where it is not.
  std::string misuse(const void* address) const;

  // Work of `stream` may use the free block's bytes at once.
  bool is_ready(StreamId stream, const Block& block) const {
    return streams.clocks().ordered(stream, {block.stream, block.freed_epoch});
  }
  // The host may wait for the free block's last use, or need not.
  bool may_wait_for(const Block& block) const {
    return !streams.has_order() || !streams.is_suspended() ||
           streams.clocks().passed({block.stream, block.freed_epoch});
  }
  // No other stream uses the block, as far as the job has said.
  bool is_alone(const Block& block, StreamId stream) const {
    return !streams.has_order() || (block.stream == stream && !block.shared);
  }
  // The allocated block may be evicted, if its owner's price is no barrier.
  bool may_go(const Block& block, StreamId stream) const {
    return block.owner != nullptr && reclaimer != nullptr &&
           block.refused_search != search_number &&
           (!streams.is_suspended() || (block.stream == stream && !block.shared));
  }
  // May be evicted now, whatever that costs.
  bool is_evictable(const Block& block, StreamId stream) const {
    return may_go(block, stream) && reclaimer->evictable(block.owner);
  }

  // The bytes of free blocks that touch this one; 0 unless the reclaimer asks for them.
  size_t free_beside(BlockId id) const;

  // The allocated block becomes free. True if many blocks that other streams used were freed since
  // poll() last looked at them.
  bool free_block(BlockId id);
  // Has the owner give the block up, and frees it. False: refused, for the rest of this search.
  bool evict(BlockId id);
  // Evicts these in turn, those aside that went with others; false if one was refused. Merging is
  // held from the call on, until Heap::flush(): ids of blocks stay good.
  bool evict_all(std::span<const BlockId> victims);
  // Evicts what is in the window, and hands its place out. kNothing: a victim was refused, and
  // those before it are free.
  Outcome take_window(DeviceLock& lock, const Request& request, const WindowPlan& window,
                      BlockId& served);
  // Hands the claimed block out, once the request's stream comes after what used it.
  Outcome serve_claim(DeviceLock& lock, const Request& request, Claim& claim, BlockId& served);

  // What `stream` is given from now on runs after `use`. Throws: DeviceError.
  void order_after(DeviceLock& lock, StreamId stream, StreamUse use);
  // Blocks that all their users are done with become free. `requester`: what others have freed is
  // looked at, too. Throws nothing.
  void poll(DeviceLock& lock, std::optional<StreamId> requester = std::nullopt);
  // Waits until nothing that is free or freed is used by any stream; a last resort.
  void settle_streams(DeviceLock& lock);
  // Merges all free blocks that can be merged.
  void merge_free_blocks();

  // The bytes held from the device have changed, or there is a new observer.
  void note_reserved();
  void fill(void* address, size_t bytes);  // with a pattern; not while suspended
  AllocatorStatistics statistics() const;
  std::vector<BlockView> block_views() const;
  // No budget and no evictions from now on.
  void become_forked_child();
  void check_invariants() const;

 private:
  // So many frees with users on other streams wait for a request to look for them, at most.
  static constexpr size_t kBatchBlocks = 32;

  [[gnu::noinline]] void add_stream(StreamId stream);
  [[noreturn]] void refuse_address(const void* address) const;
  void release_passed();

  size_t batch_blocks_ = 0;  // freed since poll(), and used by other streams
};

}  // namespace tidepool
