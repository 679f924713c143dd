#include "allocator/budgeted_allocator.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "allocator/arena/arena.h"
#include "allocator/arena/page_supply.h"
#include "allocator/base/check.h"
#include "allocator/base/sizes.h"
#include "allocator/room_maker.h"

namespace tidepool {

namespace {

Zone zone_of(size_t bytes, PlacementHint hint, const AllocatorConfig& config) {
  return zone_for(bytes, hint, config.alignment, config.page_bytes, config.placement);
}

}  // namespace

struct BudgetedAllocator::Parts {
  Parts(AddressSpace& space, const AllocatorConfig& config) : arena(space, config) {}

  void* allocate(DeviceLock& lock, size_t bytes, PlacementHint hint, StreamId stream);
  std::optional<Request> tried_request(size_t bytes, PlacementHint hint, StreamId stream);
  void* allocate_free(size_t bytes, PlacementHint hint, StreamId stream);
  void* allocate_window(DeviceLock& lock, size_t bytes, PlacementHint hint, StreamId stream);
  void* hand_out(BlockId id, size_t bytes);
  bool free_checked(void* address, size_t bytes, StreamId stream);
  Block& block(const void* address) { return arena.heap[arena.block_at(address)]; }

  Arena arena;
  PageSupply supply{arena};
  RoomMaker rooms{arena, supply};
  std::atomic<uint64_t> misses = 0;
};

void* BudgetedAllocator::Parts::allocate(DeviceLock& lock, size_t bytes, PlacementHint hint,
                                         StreamId stream) {
  TIDEPOOL_CHECK(bytes > 0, "allocation of %zu bytes", bytes);
  const AllocatorConfig& config = arena.config;
  Heap& heap = arena.heap;
  // More than the range cannot be rounded up safely, and is refused by make_room in any case.
  const size_t rounded =
      bytes > config.range_bytes ? config.range_bytes + 1 : round_up(bytes, config.alignment);
  const Zone zone = zone_of(rounded, hint, config);
  if (stream != StreamId::kDefault) [[unlikely]]
    arena.register_stream(stream);
  End end = End::kLow;
  if (config.strategy != nullptr) [[unlikely]]
    end = rooms.admit(lock, {bytes, rounded, zone, stream});
  BlockId id = heap.take_cached(zone, rounded, stream);
  if (id == BlockId::kNone) [[unlikely]] {
    id = heap.take_free(zone, rounded, stream, end);
    if (id == BlockId::kNone) {
      misses.fetch_add(1, std::memory_order_relaxed);
      id = rooms.make_room(lock, {bytes, rounded, zone, stream, end});
    }
  }
  return hand_out(id, bytes);
}

void* BudgetedAllocator::Parts::hand_out(BlockId id, size_t bytes) {
  Heap& heap = arena.heap;
  AllocatorStatistics& counts = arena.counts;
  heap.set_requested(id, bytes);
  const auto serial = static_cast<uint32_t>(counts.allocations);
  heap[id].set_origin({serial, Origin::number_of(Origin::this_thread())});
  ++counts.allocations;
  counts.allocated_peak_bytes = std::max(counts.allocated_peak_bytes, heap.allocated_bytes());
  counts.requested_peak_bytes = std::max(counts.requested_peak_bytes, heap.requested_bytes());
  if (arena.observer != nullptr) [[unlikely]]
    arena.observer->allocated(heap.view(id));
  return arena.address_of(id).pointer();
}

// A request for which nothing fails if it is not served. Nothing: it cannot even be tried.
std::optional<Request> BudgetedAllocator::Parts::tried_request(size_t bytes, PlacementHint hint,
                                                               StreamId stream) {
  const AllocatorConfig& config = arena.config;
  if (bytes > config.range_bytes || config.strategy != nullptr) return std::nullopt;
  const size_t rounded = round_up(bytes, config.alignment);
  if (stream != StreamId::kDefault) arena.register_stream(stream);
  return Request{bytes, rounded, zone_of(rounded, hint, config), stream};
}

void* BudgetedAllocator::Parts::allocate_free(size_t bytes, PlacementHint hint, StreamId stream) {
  const auto request = tried_request(bytes, hint, stream);
  if (!request) return nullptr;
  const BlockId id = arena.heap.take_free(request->zone, request->bytes, stream, End::kLow);
  return id != BlockId::kNone ? hand_out(id, bytes) : nullptr;
}

void* BudgetedAllocator::Parts::allocate_window(DeviceLock& lock, size_t bytes, PlacementHint hint,
                                                StreamId stream) {
  const auto request = tried_request(bytes, hint, stream);
  if (!request) return nullptr;
  const BlockId id = rooms.make_quietly(lock, *request);
  return id != BlockId::kNone ? hand_out(id, bytes) : nullptr;
}

bool BudgetedAllocator::Parts::free_checked(void* address, size_t bytes, StreamId stream) {
  const BlockId id = arena.block_at(address);
  const Block& block = arena.heap[id];
  TIDEPOOL_CHECK(block.requested_bytes == bytes && block.stream == stream,
                 "%p is freed as %zu bytes of stream %u, but is %zu bytes of stream %u", address,
                 bytes, static_cast<unsigned>(stream), block.requested_bytes,
                 static_cast<unsigned>(block.stream));
  return arena.free_block(id);
}

BudgetedAllocator::BudgetedAllocator(AddressSpace& space, DeviceMutex& mutex,
                                     const AllocatorConfig& config)
    : mutex_(mutex), poison_(config.poison), parts_(std::make_unique<Parts>(space, config)) {}

BudgetedAllocator::~BudgetedAllocator() = default;

void BudgetedAllocator::set_reclaimer(Reclaimer* reclaimer) {
  DeviceLock lock(mutex_);
  parts_->arena.set_reclaimer(reclaimer);
}

void BudgetedAllocator::set_observer(AllocatorObserver* observer) {
  DeviceLock lock(mutex_);
  parts_->arena.set_observer(observer);
}

void BudgetedAllocator::set_stream_order(StreamOrder* order) {
  DeviceLock lock(mutex_);
  parts_->arena.streams.set_order(order);
}

void* BudgetedAllocator::allocate(size_t bytes, PlacementHint hint, StreamId stream) {
  void* address = nullptr;
  {
    DeviceLock lock(mutex_);
    address = parts_->allocate(lock, bytes, hint, stream);
  }
  if (poison_) [[unlikely]]
    parts_->arena.poison_fresh(address, bytes);
  return address;
}

void* BudgetedAllocator::allocate_free_locked(size_t bytes, PlacementHint hint, StreamId stream) {
  return parts_->allocate_free(bytes, hint, stream);
}

void* BudgetedAllocator::allocate_window_locked(size_t bytes, PlacementHint hint, StreamId stream,
                                                DeviceLock& lock) {
  return parts_->allocate_window(lock, bytes, hint, stream);
}

void BudgetedAllocator::free(void* address) {
  if (poison_) [[unlikely]] {
    size_t bytes = 0;
    {
      DeviceLock lock(mutex_);
      bytes = block_bytes(address);
    }
    parts_->arena.poison(address, bytes);  // still the caller's block
  }
  DeviceLock lock(mutex_);
  if (parts_->arena.free_block(parts_->arena.block_at(address))) [[unlikely]] {
    parts_->arena.poll(lock);
  }
}

void BudgetedAllocator::free_checked(void* address, size_t bytes, StreamId stream) {
  DeviceLock lock(mutex_);
  if (parts_->free_checked(address, bytes, stream)) [[unlikely]]
    parts_->arena.poll(lock);
}

void BudgetedAllocator::record_stream(void* address, StreamId user) {
  DeviceLock lock(mutex_);
  record_stream_locked(address, user);
}

void BudgetedAllocator::record_stream_locked(void* address, StreamId user) {
  parts_->arena.register_stream(user);
  parts_->arena.heap.add_user(parts_->arena.block_at(address), user);
}

void BudgetedAllocator::record_use_locked(void* address, StreamUse use) {
  parts_->arena.heap.add_user(parts_->arena.block_at(address), use);
}

std::vector<StreamId> BudgetedAllocator::users(const void* address) const {
  return parts_->arena.heap.users(parts_->arena.block_at(address));
}

StreamUse BudgetedAllocator::use_so_far(StreamId stream) {
  parts_->arena.register_stream(stream);
  return {stream, parts_->arena.streams.clocks().open(stream)};
}

void BudgetedAllocator::close_uses_locked(StreamId stream, std::shared_ptr<Fence> fence) {
  parts_->arena.streams.close_uses(stream, std::move(fence));
}

void BudgetedAllocator::order_after(StreamId stream, StreamUse use, DeviceLock& lock) {
  parts_->arena.order_after(lock, stream, use);
}

void BudgetedAllocator::order_after_all(StreamId stream, DeviceLock& lock) {
  const StreamSequencer& streams = parts_->arena.streams;
  for (size_t k = 0; k < streams.clocks().stream_count() && streams.can_order(); ++k) {
    const StreamId other{static_cast<uint32_t>(k)};
    if (other != stream) order_after(stream, use_so_far(other), lock);
  }
}

void BudgetedAllocator::wait_for(StreamUse use, DeviceLock& lock) {
  StreamSequencer& streams = parts_->arena.streams;
  if (!streams.can_order()) return;
  StreamUses uses{use};
  if (!streams.wait_for(lock, uses)) throw DeviceError(streams.error());
}

void BudgetedAllocator::free_locked(void* address) {
  if (poison_) [[unlikely]]
    parts_->arena.poison(address, block_bytes(address));
  parts_->arena.free_block(parts_->arena.block_at(address));
}

bool BudgetedAllocator::contains(const void* address) const {
  return parts_->arena.contains(address);
}

size_t BudgetedAllocator::offset(const void* address) const {
  return parts_->arena.offset_of(address);
}

Owner BudgetedAllocator::owner(const void* address) const {
  const Heap& heap = parts_->arena.heap;
  const BlockId id = heap.allocated_at(offset(address));
  return id != BlockId::kNone ? heap[id].owner : nullptr;
}

void BudgetedAllocator::set_owner(void* address, Owner owner) { owner_slot(address) = owner; }

Owner& BudgetedAllocator::owner_slot(void* address) { return parts_->block(address).owner; }

size_t BudgetedAllocator::block_bytes(const void* address) const {
  return parts_->block(address).bytes;
}

StreamId BudgetedAllocator::stream(const void* address) const {
  return parts_->block(address).stream;
}

std::string BudgetedAllocator::misuse(const void* address) const {
  DeviceLock lock(mutex_);
  return parts_->arena.misuse(address);
}

void BudgetedAllocator::suspend_stream_order() {
  DeviceLock lock(mutex_);
  parts_->arena.streams.suspend();
  parts_->arena.calls.wait_for_all(lock);
}

void BudgetedAllocator::resume_stream_order() {
  DeviceLock lock(mutex_);
  parts_->arena.streams.resume();
}

bool BudgetedAllocator::is_stream_order_suspended() const {
  DeviceLock lock(mutex_);
  return parts_->arena.streams.is_suspended();
}

size_t BudgetedAllocator::compact(DeviceLock& lock, StreamId stream) {
  return parts_->rooms.compact(lock, stream);
}

size_t BudgetedAllocator::give_back_free_pages() {
  DeviceLock lock(mutex_);
  return parts_->supply.give_back(lock);
}

size_t BudgetedAllocator::set_limit(size_t bytes) {
  DeviceLock lock(mutex_);
  return parts_->supply.set_limit(lock, bytes);
}

std::vector<BlockView> BudgetedAllocator::blocks() const {
  DeviceLock lock(mutex_);
  return parts_->arena.block_views();
}

void BudgetedAllocator::before_fork() {
  DeviceLock lock(mutex_);
  parts_->arena.calls.wait_for_all(lock);
  lock.release()->keep_through_fork();
}

void BudgetedAllocator::after_fork_in_parent() { mutex_.unlock_after_fork(); }

void BudgetedAllocator::after_fork_in_child() {
  parts_->arena.become_forked_child();
  mutex_.unlock_after_fork();
}

void BudgetedAllocator::become_forked_child() {
  DeviceLock lock(mutex_);
  parts_->arena.become_forked_child();
}

AllocatorStatistics BudgetedAllocator::statistics() const {
  DeviceLock lock(mutex_);
  return parts_->arena.statistics();
}

size_t BudgetedAllocator::allocated_bytes() const { return parts_->arena.heap.allocated_bytes(); }

size_t BudgetedAllocator::limit_bytes() const { return parts_->arena.limit_bytes(); }

uint64_t BudgetedAllocator::misses() const {
  return parts_->misses.load(std::memory_order_relaxed);
}

uint64_t BudgetedAllocator::remap_ns_per_page() const {
  return static_cast<uint64_t>(parts_->arena.remap_ns_per_page);
}

uint64_t BudgetedAllocator::drain_ns() const {
  return static_cast<uint64_t>(parts_->arena.drain_ns);
}

uint64_t BudgetedAllocator::prices() const { return parts_->arena.counts.prices; }

uint32_t BudgetedAllocator::allocations() const {
  return static_cast<uint32_t>(parts_->arena.counts.allocations);
}

size_t BudgetedAllocator::committed_bytes() const {
  DeviceLock lock(mutex_);
  return parts_->arena.committed_bytes();
}

size_t BudgetedAllocator::page_bytes() const { return parts_->arena.page_bytes(); }

void BudgetedAllocator::check_invariants() const {
  DeviceLock lock(mutex_);
  parts_->arena.check_invariants();
  parts_->rooms.check_invariants();
}

}  // namespace tidepool
