#include "allocator/arena/arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/base/check.h"
#include "allocator/base/sizes.h"

namespace tidepool {
namespace {

// Each fresh block is filled with another of so many bytes than the block before: a result that
// depends on what nobody wrote is mostly another one when it is computed again. They make negative
// floats, large but no NaN, and negative integers.
constexpr unsigned char kPoison = 0xFB;
constexpr unsigned char kFreshValues = 7;

// Bins may keep one part in so many of the budget from being merged.
constexpr size_t kBinsShare = 16;

}  // namespace

Arena::Arena(AddressSpace& memory, const AllocatorConfig& settings)
    : space(memory),
      config(completed(settings, memory)),
      base(memory.reserve(config.range_bytes)),
      heap(config.range_bytes, config.page_bytes, config.alignment,
           config.budget_bytes / kBinsShare, streams.clocks(), config.placement.eighths),
      pages(config.range_bytes / config.page_bytes, config.budget_bytes / config.page_bytes),
      remap_ns_per_page(static_cast<double>(config.remap_ns_per_page)),
      drain_ns(static_cast<double>(config.drain_ns)) {
  counts.budget_bytes = config.budget_bytes;
  heap.set_observer(nullptr, base);  // views name addresses, whoever looks
}

Arena::~Arena() {
  try {
    space.release_range(base, config.range_bytes);
  } catch (const DeviceError&) {
    // Addresses that the device refuses to take back are lost to the process, not to correctness.
  }
}

void Arena::set_reclaimer(Reclaimer* new_reclaimer) {
  TIDEPOOL_CHECK(reclaimer == nullptr, "set_reclaimer was called before, %p",
                 static_cast<void*>(new_reclaimer));
  reclaimer = new_reclaimer;
  prices_free_beside = new_reclaimer->asks_for_free_beside();
}

void Arena::set_observer(AllocatorObserver* new_observer) {
  observer = new_observer;
  heap.set_observer(new_observer, base);
  note_reserved();
}

void Arena::add_stream(StreamId stream) {
  streams.add_stream(stream);
  heap.add_stream(stream);
}

std::string Arena::misuse(const void* address) const {
  if (!contains(address)) {
    return fmt::format("{} is not of this allocator's range, {} to {}", fmt::ptr(address),
                       fmt::ptr(base.pointer()), fmt::ptr((base + heap.range_bytes()).pointer()));
  }
  const size_t offset = offset_of(address);
  if (heap.allocated_at(offset) != BlockId::kNone) return {};
  BlockId id = heap.blocks().first();
  while (heap[id].end() <= offset) id = heap[id].next;
  if (heap[id].state != BlockState::kAllocated) {
    return fmt::format("no allocated block starts at {} (freed twice?)", fmt::ptr(address));
  }
  return fmt::format("no allocated block starts at {}: it is inside one of {} bytes at {}",
                     fmt::ptr(address), heap[id].bytes, fmt::ptr(address_of(id).pointer()));
}

void Arena::refuse_address(const void* address) const {
  TIDEPOOL_CHECK(false, "%s", misuse(address).c_str());
}

size_t Arena::free_beside(BlockId id) const {
  size_t bytes = 0;
  if (!prices_free_beside) return bytes;
  for (const BlockId neighbour : {heap[id].previous, heap[id].next}) {
    if (neighbour == BlockId::kNone) continue;
    const Block& block = heap[neighbour];
    const bool free = block.state == BlockState::kFree || block.state == BlockState::kCached ||
                      block.state == BlockState::kUnmerged;
    if (free) bytes += block.bytes;
  }
  return bytes;
}

bool Arena::free_block(BlockId id) {
  ++counts.frees;
  const bool shared = heap[id].shared;
  if (observer != nullptr) [[unlikely]]
    observer->freed(heap.view(id), shared);
  heap.release(id);
  return shared && ++batch_blocks_ >= kBatchBlocks;
}

bool Arena::evict(BlockId id) {
  Block& block = heap[id];
  if (block.owner == nullptr || !reclaimer->evict(block.owner)) {
    block.refused_search = search_number;
    return false;
  }
  block.owner = nullptr;
  ++counts.evictions;
  if (config.allow_remap) heap.spare_pages();
  counts.evicted_bytes += block.bytes;
  if (config.poison) poison(address_of(id).pointer(), block.bytes);
  if (observer != nullptr) [[unlikely]]
    observer->freed(heap.view(id), block.shared);
  heap.release(id);
  return true;
}

bool Arena::evict_all(std::span<const BlockId> victims) {
  heap.hold_merging();
  for (const BlockId id : victims) {
    // An eviction may free other blocks, victims among them.
    if (heap[id].state == BlockState::kAllocated && !evict(id)) return false;
  }
  return true;
}

Outcome Arena::take_window(DeviceLock& lock, const Request& request, const WindowPlan& window,
                           BlockId& served) {
  if (!evict_all(window.victims)) {
    heap.flush();
    return Outcome::kNothing;
  }
  for (const BlockId id : window.spares) {
    if (heap[id].state != BlockState::kAllocated) continue;
    const Price price = reclaimer->price(heap[id].owner);
    if (!price.barrier && price.value <= window.spare_limit) evict(id);
  }
  // The request takes the high end where a free block lies at the low end, which the rest then
  // joins.
  const End end = window.begins_with_free_block ? End::kHigh : request.end;
  const size_t spare = window.range.end - window.range.begin - request.bytes;
  const size_t begin = heap.start_within(window.range.begin, spare, request.bytes, end);
  Claim target;
  target.block = heap.claim(window.first, begin, begin + request.bytes, &target.uses);
  heap.flush();
  const Outcome outcome = serve_claim(lock, request, target, served);
  counts.windows += outcome == Outcome::kServed;
  return outcome;
}

Outcome Arena::serve_claim(DeviceLock& lock, const Request& request, Claim& claim,
                           BlockId& served) {
  if (!streams.order_after(lock, request.stream, claim.uses)) {
    heap.unclaim(claim.block, pages, request.stream, claim.uses);
    return Outcome::kOrderFailed;
  }
  served = heap.hand_out(claim.block, request.bytes, pages, request.stream, claim.uses);
  return Outcome::kServed;
}

void Arena::order_after(DeviceLock& lock, StreamId stream, StreamUse use) {
  register_stream(stream);
  if (streams.clocks().ordered(stream, use)) return;
  if (!streams.can_order()) {
    throw DeviceError("a stream would have to wait for another while a graph is captured");
  }
  StreamUses uses{use};
  if (!streams.order_after(lock, stream, uses)) throw DeviceError(streams.error());
}

void Arena::release_passed() {
  if (streams.take_passed()) heap.release_passed();
}

void Arena::poll(DeviceLock& lock, std::optional<StreamId> requester) {
  if (!streams.can_order()) return;
  batch_blocks_ = 0;
  const StreamClocks& clocks = streams.clocks();
  StreamUses to_record;
  for (StreamUse use : heap.awaited()) {
    if (clocks.milestone_for(use).fence == nullptr) add_use(to_record, use);
  }
  if (requester && clocks.stream_count() > 1) {
    for (StreamUse use : heap.unpassed()) {
      const bool others = use.stream != *requester;
      if (others && !clocks.has_milestone(use.stream)) add_use(to_record, use);
    }
  }
  streams.poll(lock, to_record);
  release_passed();
}

void Arena::wait_for_streams(DeviceLock& lock) {
  if (!streams.can_order()) return;
  // Where the device has refused, what has not passed stays as it is.
  StreamUses uses = heap.awaited();
  if (!uses.empty()) (void)streams.wait_for(lock, uses);
  release_passed();
  uses = heap.unpassed();
  if (!uses.empty()) (void)streams.wait_for(lock, uses);
  release_passed();
}

void Arena::merge_free_blocks() {
  heap.flush();
  if (streams.clocks().stream_count() > 1) heap.merge_passed();
}

void Arena::note_reserved() {
  counts.reserved_peak_bytes = std::max(counts.reserved_peak_bytes, committed_bytes());
  if (observer != nullptr) observer->reserved(committed_bytes());
}

void Arena::poison(void* address, size_t bytes) {
  if (!streams.is_suspended()) space.fill(Address::of(address), bytes, kPoison);
}

void Arena::poison_fresh(void* address, size_t bytes) {
  const unsigned turn = fresh_blocks_.fetch_add(1, std::memory_order_relaxed) % kFreshValues;
  if (!streams.is_suspended()) {
    space.fill(Address::of(address), bytes, static_cast<unsigned char>(kPoison - turn));
  }
}

AllocatorStatistics Arena::statistics() const {
  AllocatorStatistics result = counts;
  result.allocated_bytes = heap.allocated_bytes();
  result.requested_bytes = heap.requested_bytes();
  result.reserved_bytes = committed_bytes();
  result.limit_bytes = limit_bytes();
  result.awaiting_bytes = heap.awaiting_bytes();
  return result;
}

std::vector<BlockView> Arena::block_views() const {
  std::vector<BlockView> views;
  views.reserve(heap.blocks().count());
  for (BlockId id = heap.blocks().first(); id != BlockId::kNone; id = heap[id].next) {
    views.push_back(heap.view(id));
  }
  return views;
}

void Arena::become_forked_child() {
  reclaimer = nullptr;
  streams.forget_order();
  calls.forget_all();
  pages.set_budget(pages.page_count());
  pages.device_limit() = {};
  counts.budget_bytes = config.range_bytes;
}

void Arena::check_invariants() const {
  pages.check_invariants();
  heap.check_invariants(pages);
  TIDEPOOL_CHECK(committed_bytes() <= counts.budget_bytes, "(1) %zu bytes committed of %zu",
                 committed_bytes(), counts.budget_bytes);
  size_t claimed = 0;
  for (BlockId id = heap.blocks().first(); id != BlockId::kNone; id = heap[id].next) {
    claimed += heap[id].state == BlockState::kClaimed;
  }
  TIDEPOOL_CHECK(claimed == 0 || calls.any(), "(2) %zu blocks are claimed by nobody", claimed);
}

}  // namespace tidepool
