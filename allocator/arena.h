// Arena: the state behind BudgetedAllocator, and the order in which a request is served.
// Owns heap, pages, deferred frees, statistics and trace; not the AddressSpace or the reclaimer.
// Every function requires the lock; those that take a DeviceLock& may release it for a while.
// Invariants: those of budgeted_allocator.h, Heap and PageTable.
// See docs/life-of-an-allocation.md.
#pragma once

#include <condition_variable>
#include <memory>
#include <vector>

#include "allocator/budgeted_allocator.h"
#include "allocator/fence.h"
#include "allocator/heap.h"
#include "allocator/page_selection.h"
#include "allocator/page_transaction.h"
#include "allocator/trace_ring.h"

namespace tidepool {

class Arena {
 public:
  Arena(AddressSpace& space, const AllocatorConfig& config);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void set_reclaimer(Reclaimer* reclaimer);
  void* allocate(DeviceLock& lock, size_t bytes, PlacementHint hint);
  void free(void* address);
  void free_after(void* address, std::shared_ptr<Fence> fence);
  Block& allocated_block(const void* address) {
    return heap_[heap_.allocated_at(offset_of(address))];
  }
  size_t give_back(DeviceLock& lock);
  void become_forked_child();
  // Waits until no device call is under way.
  void quiesce(DeviceLock& lock);

  bool contains(const void* address) const {
    return Address::of(address).value - base_.value < heap_.range_bytes();
  }
  void fill(void* address, size_t bytes) { space_.fill(Address::of(address), bytes, kPoison); }
  AllocatorStatistics statistics() const;
  std::string trace_text() const { return trace_.text(); }
  size_t committed_bytes() const { return pages_.committed() * config_.handle_bytes; }
  void check_invariants() const;

 private:
  static constexpr unsigned char kPoison = 0xFB;
  // After this many failures of the device a request is refused.
  static constexpr int kDeviceFailures = 3;
  // A last bound on waiting: the reclaimer's own comes first.
  static constexpr int kWaits = 10000;

  static constexpr size_t kSiteAttempts = 2 * (kZoneCount + 1);

  struct Request {
    size_t asked_bytes = 0;
    size_t bytes = 0;
    Zone zone = Zone::kTransient;
  };
  // Where new pages would go: part of a run of free blocks and holes.
  struct Site {
    BlockId first{};
    size_t begin = 0;
    size_t claim_end = 0;     // end of the request, or of its last page where that is a hole
    size_t pages_needed = 0;  // 0: no site
  };
  struct Claims {
    BlockId target{};
    std::vector<BlockId> sources;
  };
  enum class Outcome : uint8_t { kServed, kNothing, kDeviceFailed };

  size_t offset_of(const void* address) const { return Address::of(address) - base_; }
  Address address_of(BlockId id) const { return base_ + heap_[id].offset; }
  size_t pages_at_hand() const { return pages_.headroom() + pages_.spare_count(); }
  void note_reserved();

  // arena_room.cpp: serving a request that neither a bin nor a free block serves.
  BlockId make_room(DeviceLock& lock, const Request& request);
  Site find_site(Zone zone, size_t bytes) const;
  // The lowest hole that takes the whole request.
  Site find_hole(Zone zone, size_t bytes) const;
  // The site to try in the given attempt: per zone, the one that needs the fewest pages, then a
  // plain hole, which keeps no page from being moved.
  Site next_site(const Request& request, size_t attempt) const;
  Site site_from(BlockId start, size_t bytes) const;
  Outcome commit_room(DeviceLock& lock, const Request& request, BlockId& served);
  Outcome fill_site(DeviceLock& lock, const Request& request, const Site& site,
                    const std::vector<size_t>& from_pages, BlockId& served);
  // `emptied`: claimed blocks whose pages go.
  void run_unlocked(DeviceLock& lock, PageTransaction& transaction,
                    const std::vector<BlockId>& emptied);
  bool poll_fences();
  bool wait_for_a_fence(DeviceLock& lock);
  // Nobody else can take the target or the sources from now on. `from_pages`: ascending, free,
  // of blocks in items_ that have not been merged since.
  Claims claim_pages(const Site& site, const std::vector<size_t>& from_pages);
  BlockId block_of_item_at(size_t offset) const;

  // arena_reclaim.cpp: evicting.
  Outcome reclaim(DeviceLock& lock, const Request& request, BlockId& served);
  void begin_search();
  void collect_items();
  RoomItem item_for(BlockId id);
  std::span<const RoomItem> zone_items(Zone zone) const;
  std::optional<PageSelection> select_pages(const Request& request, Site& site);
  std::optional<Window> find_window(Zone zone, size_t bytes) const;
  bool take_window(const Request& request, const Window& window, BlockId& served);
  // Evicts these items' blocks; false if one was refused (the others are free then). Merging is
  // held from the call on, until Heap::flush().
  bool evict_items(std::span<const size_t> victims);
  [[noreturn]] void out_of_memory(const Request& request);
  size_t largest_servable();

  AddressSpace& space_;
  AllocatorConfig config_;
  Address base_;
  Heap heap_;
  PageTable pages_;
  PageSelector selector_;
  Reclaimer* reclaimer_ = nullptr;
  TraceRing trace_;
  AllocatorStatistics counts_;

  struct DeferredFree {
    BlockRef block;
    std::shared_ptr<Fence> fence;
  };
  std::vector<DeferredFree> deferred_;

  size_t in_flight_ = 0;  // transactions whose device calls are running
  std::condition_variable_any in_flight_change_;

  // Of the search under way; kept for their memory.
  uint32_t search_ = 0;
  std::vector<RoomItem> items_;  // all blocks, in address order
  std::array<size_t, kZoneCount + 1> zone_begins_{};
};

}  // namespace tidepool
