// Arena: the state behind BudgetedAllocator, and the order in which a request is served.
// Owns heap, pages, deferred frees, statistics and trace; not the AddressSpace or the reclaimer.
// Every function requires the lock; those that take a DeviceLock& may release it for a while.
// Invariants: those of budgeted_allocator.h, Heap and PageTable.
// See docs/life-of-an-allocation.md.
#pragma once

#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocator/block_walk.h"
#include "allocator/budgeted_allocator.h"
#include "allocator/fence.h"
#include "allocator/heap.h"
#include "allocator/page_selection.h"
#include "allocator/page_transaction.h"
#include "allocator/room_list.h"
#include "allocator/shortlists.h"
#include "allocator/stream_clocks.h"
#include "allocator/trace_ring.h"
#include "allocator/window_search.h"

namespace tidepool {

class Arena {
 public:
  Arena(AddressSpace& space, const AllocatorConfig& config);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void set_reclaimer(Reclaimer* reclaimer);
  void set_stream_order(StreamOrder* order);
  void set_observer(AllocatorObserver* observer);
  void* allocate(DeviceLock& lock, size_t bytes, PlacementHint hint,
                 StreamId stream = StreamId::kDefault);
  // True if many blocks that other streams used were freed since fences were last recorded: poll().
  bool free(void* address) { return free_block(block_at(address)); }
  bool free_checked(void* address, size_t bytes, StreamId stream);
  void free_after(void* address, std::shared_ptr<Fence> fence);
  void record_stream(void* address, StreamId user);
  StreamUse use_so_far(StreamId stream) {
    know(stream);
    return {stream, clocks_.open(stream)};
  }
  // Throws: DeviceError.
  void order_after(DeviceLock& lock, StreamId stream, StreamUse use);
  Block& allocated_block(const void* address) { return heap_[block_at(address)]; }
  // Why `address` is not the start of an allocated block, or "". O(blocks) where it is not.
  std::string misuse(const void* address) const;
  size_t give_back(DeviceLock& lock);
  size_t compact(DeviceLock& lock, StreamId stream);
  size_t set_limit(DeviceLock& lock, size_t bytes);
  std::vector<BlockView> block_views() const;
  void suspend_order() { ++suspended_; }
  void resume_order();
  // Blocks that all their users are done with become free. `requester`: what others have freed is
  // looked at, too. Throws nothing.
  void poll(DeviceLock& lock, std::optional<StreamId> requester = std::nullopt);
  void become_forked_child();
  // Waits until no device call is under way.
  void quiesce(DeviceLock& lock);

  bool contains(const void* address) const {
    return Address::of(address).value - base_.value < heap_.range_bytes();
  }
  size_t offset(const void* address) const { return Address::of(address).value - base_.value; }
  void fill(void* address, size_t bytes) {
    if (suspended_ == 0) space_.fill(Address::of(address), bytes, kPoison);
  }
  AllocatorStatistics statistics() const;
  std::string trace_text() const { return trace_.text(); }
  size_t handle_bytes() const { return config_.handle_bytes; }
  size_t allocated_bytes() const { return heap_.allocated_bytes(); }
  uint64_t prices() const { return counts_.prices; }
  // As Origin::serial counts.
  uint32_t allocations() const { return static_cast<uint32_t>(counts_.allocations); }
  size_t committed_bytes() const { return pages_.committed() * config_.handle_bytes; }
  void check_invariants() const;

 private:
  static constexpr unsigned char kPoison = 0xFB;
  // After this many failures of the device a request is refused.
  static constexpr int kDeviceFailures = 3;
  // A last bound on waiting: the reclaimer's own comes first.
  static constexpr int kWaits = 10000;

  // So many frees with users on other streams wait for a request to look for them, at most.
  static constexpr size_t kBatchBlocks = 32;
  static constexpr size_t kStreams = 1 << 16;

  static constexpr size_t kSiteAttempts = 2 * (kZoneCount + 1);

  // A window whose contents move out, and those that it is to make places for.
  struct Emptied {
    size_t begin = 0, end = 0;
    const Emptied* outer = nullptr;
  };
  struct Request {
    size_t asked_bytes = 0;
    size_t bytes = 0;
    Zone zone = Zone::kTransient;
    StreamId stream = StreamId::kDefault;
    End end = End::kLow;  // of the free block that it is cut from
    // Of moving blocks for it: how often more, and only blocks that find a place, as far as known.
    int moves_left = 16;
    size_t move_limit_bytes = SIZE_MAX;
    bool evicts_for_places = false;  // the last resort: blocks move to where others are evicted
    const Emptied* emptied = nullptr;  // of a place: what moves there lies here
    bool device_failed = false;  // while pages were moved for it: a window takes no device call
  };
  // Where new pages would go: part of a run of free blocks and holes.
  struct Site {
    BlockId first{};
    size_t begin = 0;
    size_t claim_end = 0;     // end of the request, or of its last page where that is a hole
    size_t pages_needed = 0;  // 0: no site
  };
  struct Claim {
    BlockId block{};
    StreamUses uses;  // that have to pass before its bytes may be used
  };
  struct Claims {
    Claim target;
    std::vector<Claim> sources;
  };
  // kRetry: something was freed, which a free block may have come of.
  enum class Outcome : uint8_t { kServed, kNothing, kRetry, kDeviceFailed, kOrderFailed };

  // Counts a sequence of device calls that is under way. Requires: lock held at both ends.
  class InFlight {
   public:
    explicit InFlight(Arena& arena) : arena_(arena) { ++arena_.in_flight_; }
    ~InFlight() {
      --arena_.in_flight_;
      arena_.in_flight_change_.notify_all();
    }
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;

   private:
    Arena& arena_;
  };

  size_t offset_of(const void* address) const { return Address::of(address) - base_; }
  // Aborts where there is no allocated block: the caller's bug.
  BlockId block_at(const void* address) const {
    BlockId id = heap_.allocated_at(offset_of(address));
    if (id == BlockId::kNone) [[unlikely]] refuse_address(address);
    return id;
  }
  [[noreturn]] void refuse_address(const void* address) const;
  bool free_block(BlockId id);
  Address address_of(BlockId id) const { return base_ + heap_[id].offset; }
  size_t pages_at_hand() const { return pages_.headroom() + pages_.spare_count(); }
  void note_reserved();
  // For spaces without virtual memory, at the start. Throws: DeviceError.
  void commit_everything();
  void give_everything_back();

  // arena_room.cpp: serving a request that neither a bin nor a free block serves.
  // Not inlined: its frame would burden every hit.
  [[gnu::noinline]] BlockId make_room(DeviceLock& lock, Request request);
  Site find_site(const Request& request, Zone zone) const;
  // The lowest hole that takes the whole request.
  Site find_hole(const Request& request, Zone zone) const;
  // The site to try in the given attempt: per zone, the one that needs the fewest pages, then a
  // plain hole, which keeps no page from being moved.
  Site next_site(const Request& request, size_t attempt) const;
  Site site_from(const Request& request, BlockId start) const;
  Outcome commit_room(DeviceLock& lock, const Request& request, BlockId& served);
  Outcome fill_site(DeviceLock& lock, const Request& request, const Site& site,
                    const std::vector<size_t>& from_pages, BlockId& served);
  // `emptied`: claimed blocks whose pages go, once the streams that used them are through.
  void run_unlocked(DeviceLock& lock, PageTransaction& transaction, std::vector<Claim>& emptied);
  bool poll_host_fences();
  bool wait_for_a_fence(DeviceLock& lock);
  // Nobody else can take the target or the sources from now on. `from_pages`: ascending, free,
  // of blocks in room_ that have not been merged since.
  Claims claim_pages(const Site& site, const std::vector<size_t>& from_pages);
  BlockId block_listed_at(size_t offset) const;

  // arena_streams.cpp: memory that goes from one stream to another.
  void know(StreamId stream);
  // Moving a page needs a wait for what used it.
  bool can_move_pages() const { return config_.allow_remap && suspended_ == 0; }
  bool can_order() const { return order_ != nullptr && suspended_ == 0; }
  // Work of `stream` may use the block's bytes at once.
  bool ready(StreamId stream, const Block& block) const;
  // The host may wait for the free block's last use, or need not.
  bool may_wait_for(const Block& block) const {
    return order_ == nullptr || suspended_ == 0 ||
           clocks_.passed({block.stream, block.freed_epoch});
  }
  // The stream's later work runs after the uses, which are then one of its own. False, and the
  // uses stay, if the device refuses.
  bool order_after(DeviceLock& lock, StreamId stream, StreamUses& uses);
  // Waits until the uses have passed; none are left then. False as above.
  bool wait_for(DeviceLock& lock, StreamUses& uses);
  // A fence for each use that has not passed, recorded where there is none. Where a stream does not
  // record, all work on the device is waited for, and no fence is needed. Nothing if the device
  // refuses that too.
  std::optional<std::vector<StreamClocks::Milestone>> fences_for(DeviceLock& lock,
                                                                 const StreamUses& uses);
  // The use has passed. What awaited it becomes free by release_passed(), later where a request
  // under way knows the ids of blocks, which that merges.
  void note_passed(StreamUse use);
  void release_passed();
  // Waits until nothing that is free or freed is used by any stream; a last resort.
  void settle_streams(DeviceLock& lock);
  // Waits for all work on the device: all uses so far have passed then. False if it refuses.
  bool finish_streams(DeviceLock& lock);
  // A free block of another stream; `ordered`: only one that need not be waited for.
  Outcome lend(DeviceLock& lock, const Request& request, bool ordered, BlockId& served);
  // A block that other streams may still use: the request's stream waits for them.
  Outcome take_awaiting(DeviceLock& lock, const Request& request, BlockId& served);
  Outcome serve_claim(DeviceLock& lock, const Request& request, Claim& claim, BlockId& served);

  // arena_reclaim.cpp: evicting.
  Outcome reclaim(DeviceLock& lock, Request& request, BlockId& served);
  void begin_search();
  // Adds the time since the last call, or since begin_search(), to that of searches.
  void count_search();
  // Remembers what is cheapest in room_, which lists all blocks; `by_pages`: no window serves.
  void make_shortlist(const Request& request, bool by_pages);
  // `moving`: list what can be moved as such where that is cheaper than evicting it.
  void list_room(const Request& request, bool moving = false);
  // The allocated block may be evicted, if its owner's price is no barrier.
  bool may_go(const Block& block, StreamId stream) const;
  RoomItem item_for(BlockId id, const Request& request, bool moving);
  // Nothing, too, where no selection can cost less than the window.
  std::optional<PageSelection> select_pages(const Request& request,
                                            const std::optional<Window>& window, Site& site);
  // Of evicting its victims and of moving its pages; the time that takes counts by equal shares,
  // for each victim as a cost of that one would. Nothing for pages that are free already.
  uint64_t price_of(const PageSelection& selection);
  // Whatever the window costs.
  bool pages_are_preferred(const Window& window) const;
  bool is_better(const Request& request, const Window& window,
                 const std::optional<PageSelection>& selection);
  std::optional<Window> find_window(Zone zone, size_t bytes) const;
  std::optional<Window> find_window_anywhere(size_t bytes) const;
  Outcome take_window(DeviceLock& lock, const Request& request, const Window& window,
                      BlockId& served);

  // arena_shortlist.cpp: without a look at all blocks. An excerpt is a room_ of some blocks, added
  // in address order, with barriers for the gaps.
  Wanted wanted_by(const Request& request) const;
  void start_excerpt(size_t blocks);
  void add_to_excerpt(BlockId id, const Request& request);
  void add_gap(size_t end);
  void end_excerpt();
  // Lists in free_pages_ the stream's free blocks that may have whole pages, by address.
  void find_free_pages(StreamId stream);
  // Serves a request from free_pages_ if these do: no window costs less.
  Outcome take_free_pages(DeviceLock& lock, const Request& request, BlockId& served);
  // Serves a request from the blocks of the list for it; kNothing: all have to be looked at.
  Outcome reclaim_shortlisted(DeviceLock& lock, const Request& request, BlockId& served);
  // An excerpt of the list's blocks, those beside them that are free, and free_pages_.
  void list_shortlist(const Request& request, Shortlist& list);

  // arena_moves.cpp: moving contents out of a window.
  bool can_move_blocks(const Request& request) const;
  // No other stream uses the block, as far as the job has said.
  bool is_alone(const Block& block, StreamId stream) const;
  // Whether the block is better moved than evicted at `evicting`; then `price` is what that costs.
  bool better_moved(const Block& block, const Request& request, Price evicting, Price& price) const;
  bool moves_something(const Window& window) const;
  // The contents go from one allocated block to the other, if they are still `owner`'s and may.
  // False: the place is free again, and nothing has moved.
  bool move_block(DeviceLock& lock, BlockRef from, Owner owner, BlockId to, StreamId stream);
  // Moves what is to be moved out of the window. kRetry, with the window cheaper by what has moved;
  // kNothing if there are not enough places: fewer blocks count as movable then.
  Outcome move_out(DeviceLock& lock, Request& request, const Window& window);
  // The smallest free block that takes as much, its surplus cut off, in whatever zone.
  BlockId take_place(const Block& block, StreamId stream);
  static bool is_emptied(const Block& block, const Request& request);
  // A place for a block that moves for the request: the cheapest window outside what is being
  // emptied, which may have smaller blocks move in turn. kNone if there is none.
  BlockId clear_place(DeviceLock& lock, const Block& block, Request& request,
                      const Emptied& emptied);

  // One step of DTR's loop (Kirisame et al. 2021, section 2): evicts one block, unless free pages
  // serve the request.
  Outcome evict_one(DeviceLock& lock, const Request& request, BlockId& served);
  // Of the free blocks that touch this one; 0 unless the reclaimer asks.
  size_t free_beside(BlockId id) const;
  // Evicts these blocks of room_; false if one was refused (the others are free then). Merging is
  // held from the call on, until Heap::flush().
  bool evict_victims(std::span<const size_t> victims);
  bool evict_block(BlockId id);
  // Evicts, priced anew after each victim, until the request is within requested_limit_bytes.
  [[gnu::noinline]] void make_bytes(DeviceLock& lock, const Request& request);
  // The least price by byte, the lowest address among equals; false if there is no victim.
  bool evict_cheapest(StreamId stream);
  [[noreturn]] void out_of_memory(const Request& request);
  size_t largest_servable(const Request& request);
  // Fills `pinned` and `evictable`.
  void tell_uses(const Request& request, OutOfMemoryReport& report);
  // Pages that hold anything that cannot be evicted.
  size_t pinned_pages(StreamId stream) const;
  // No smaller budget can serve the request while what is pinned lies where it does.
  size_t lower_bound(const Request& request, size_t pinned_bytes) const;

  AddressSpace& space_;
  AllocatorConfig config_;
  Address base_;
  StreamClocks clocks_;
  Heap heap_;
  PageTable pages_;
  PageSelector selector_;
  Reclaimer* reclaimer_ = nullptr;
  bool prices_free_beside_ = false;  // what the reclaimer says
  bool allows_shortlists_ = false;   // the same
  AllocatorObserver* observer_ = nullptr;
  StreamOrder* order_ = nullptr;  // null: there is one stream
  std::string order_error_;       // what the device said when it last refused an order
  size_t suspended_ = 0;
  size_t batch_blocks_ = 0;
  double remap_ns_per_handle_ = 0;
  bool passed_since_release_ = false;
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
  uint64_t searching_since_ns_ = 0;
  BlockWalk walk_;
  RoomList room_;  // all blocks, or an excerpt
  size_t excerpt_zone_ = 0;
  std::vector<BlockId> free_pages_;
  Shortlists shortlists_;
  std::array<size_t, kZoneCount + 1> zone_begins_{};
};

}  // namespace tidepool
