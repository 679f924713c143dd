// Arena: the memory of one device, as the parts of its allocator share it: the range of addresses,
// which blocks tile, the pages under it, the streams that use it, the reclaimer, the observer, and
// the counts; with the few operations on these that several parts need. The arena decides nothing.
// Owns the range, the blocks and the books of pages; not the AddressSpace, the reclaimer or the
// observer. Every function requires the device's lock; those that take a DeviceLock& may release it
// for a while.
// Invariants: those of Heap and PageTable, and (1) committed bytes <= budget; (2) claimed blocks
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
#include "allocator/heap/heap.h"
#include "allocator/locks/calls_in_flight.h"
#include "allocator/space/address_space.h"
#include "allocator/space/page_table.h"
#include "allocator/streams/stream_sequencer.h"

namespace tidepool {

// A claimed block: a request gets it, or its pages are taken away. Nobody else can take it until
// Heap::hand_out() or Heap::unclaim() ends the claim.
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
  // The number of the present search: a block whose eviction its owner has refused in this search
  // is not asked for again in it.
  uint32_t search_number = 0;
  // What moving a page costs, in ns. It is measured while pages move, where the settings ask for
  // that.
  std::atomic<double> remap_ns_per_page = 0;
  // What the host's wait for work that uses pages costs, each time before pages move, in ns;
  // measured likewise.
  std::atomic<double> drain_ns = 0;

  void set_reclaimer(Reclaimer* new_reclaimer);
  void set_observer(AllocatorObserver* new_observer);
  // Makes room for the stream's books, before its first request.
  void register_stream(StreamId stream) {
    if (!streams.clocks().knows(stream)) [[unlikely]]
      add_stream(stream);
  }

  size_t page_bytes() const { return config.page_bytes; }
  size_t committed_bytes() const { return pages.committed() * config.page_bytes; }
  // The most that can be held from the device, as far as is known; see AllocatorStatistics.
  size_t limit_bytes() const { return pages.attainable() * page_bytes(); }
  // What moving so many pages for one request costs, the wait before it included, in ns.
  double remap_ns(size_t page_count) const {
    return drain_ns + remap_ns_per_page * static_cast<double>(page_count);
  }
  // How many pages a request can have without taking them from elsewhere in the arena.
  size_t pages_at_hand() const { return pages.headroom() + pages.spare_count(); }
  // Whether pages may move now. The host has to wait for the work that used a page before it moves.
  bool can_move_pages() const { return config.allow_remap && !streams.is_suspended(); }

  Address address_of(BlockId id) const { return base + heap[id].offset; }
  size_t offset_of(const void* address) const { return Address::of(address) - base; }
  // The allocated block that starts at `address`. Aborts where there is none, a bug of the caller.
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

  // Whether work of `stream` may use the free block's bytes at once.
  bool is_ready(StreamId stream, const Block& block) const {
    return streams.clocks().ordered(stream, {block.stream, block.freed_epoch});
  }
  // Whether the host may wait for the free block's last use, or need not wait.
  bool may_wait_for(const Block& block) const {
    return !streams.has_order() || !streams.is_suspended() ||
           streams.clocks().passed({block.stream, block.freed_epoch});
  }
  // Whether no other stream uses the block, as far as the job has said.
  bool is_alone(const Block& block, StreamId stream) const {
    return !streams.has_order() || (block.stream == stream && !block.shared);
  }
  // Whether the allocated block may be evicted if its owner's price is no barrier.
  bool may_go(const Block& block, StreamId stream) const {
    return block.owner != nullptr && reclaimer != nullptr &&
           block.refused_search != search_number &&
           (!streams.is_suspended() || (block.stream == stream && !block.shared));
  }
  // Whether the allocated block may be evicted now, whatever that costs.
  bool is_evictable(const Block& block, StreamId stream) const {
    return may_go(block, stream) && reclaimer->evictable(block.owner);
  }

  // The bytes of the free blocks that touch this block; 0 if the reclaimer's prices do not depend
  // on them.
  size_t free_beside(BlockId id) const;

  // Frees the allocated block. True if many blocks that other streams used have been freed since
  // poll() last looked at them.
  bool free_block(BlockId id);
  // Has the owner give the block up, and frees it. False: the owner refuses, for the rest of this
  // search.
  bool evict(BlockId id);
  // Evicts the victims in turn, except those that went together with others; false as soon as an
  // owner refuses. No blocks are merged from the call on until Heap::flush(), so that ids of blocks
  // stay valid.
  bool evict_all(std::span<const BlockId> victims);
  // Evicts the window's victims and spares, and hands out a block in the window. kNothing: the
  // owner of a victim refused, and the victims before that one are free now.
  Outcome take_window(DeviceLock& lock, const Request& request, const WindowPlan& window,
                      BlockId& served);
  // Has the request's stream wait for what used the claimed block, and hands the block out.
  Outcome serve_claim(DeviceLock& lock, const Request& request, Claim& claim, BlockId& served);

  // Makes the work that `stream` is given from now on run after `use`. Throws: DeviceError.
  void order_after(DeviceLock& lock, StreamId stream, StreamUse use);
  // Frees awaiting blocks whose users are all done. With a `requester`, fences are recorded for
  // what other streams have freed, too. Throws nothing.
  void poll(DeviceLock& lock, std::optional<StreamId> requester = std::nullopt);
  // Has the host wait until no stream uses a free or awaiting block any more, as a last resort.
  void wait_for_streams(DeviceLock& lock);
  // Merges all free blocks that can be merged.
  void merge_free_blocks();

  // Counts, and tells the observer, how many bytes are held from the device now.
  void note_reserved();
  // Overwrites the bytes with a pattern, for debugging; does nothing while the order of streams is
  // suspended.
  void poison(void* address, size_t bytes);
  // The same with a pattern that differs from that of the last call. Thread-safe.
  void poison_fresh(void* address, size_t bytes);
  AllocatorStatistics statistics() const;
  std::vector<BlockView> block_views() const;
  // Drops the budget and the reclaimer, for a forked child.
  void become_forked_child();
  void check_invariants() const;

 private:
  // After this many frees of blocks with users on other streams, free_block() asks for a poll().
  static constexpr size_t kBatchBlocks = 32;

  [[gnu::noinline]] void add_stream(StreamId stream);
  [[noreturn]] void refuse_address(const void* address) const;
  void release_passed();

  size_t batch_blocks_ = 0;                 // freed since poll(), and used by other streams
  std::atomic<unsigned> fresh_blocks_ = 0;  // that were poisoned
};

}  // namespace tidepool
