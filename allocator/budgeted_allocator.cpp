#include "allocator/budgeted_allocator.h"

#include "allocator/arena.h"

namespace tidepool {

BudgetedAllocator::BudgetedAllocator(AddressSpace& space, DeviceMutex& mutex,
                                     const AllocatorConfig& config)
    : mutex_(mutex),
      poison_(config.poison),
      arena_(std::make_unique<Arena>(space, config)) {}

BudgetedAllocator::~BudgetedAllocator() = default;

void BudgetedAllocator::set_reclaimer(Reclaimer* reclaimer) {
  DeviceLock lock(mutex_);
  arena_->set_reclaimer(reclaimer);
}

void BudgetedAllocator::set_observer(AllocatorObserver* observer) {
  DeviceLock lock(mutex_);
  arena_->set_observer(observer);
}

void BudgetedAllocator::set_stream_order(StreamOrder* order) {
  DeviceLock lock(mutex_);
  arena_->set_stream_order(order);
}

void* BudgetedAllocator::allocate(size_t bytes, PlacementHint hint, StreamId stream) {
  void* address = nullptr;
  {
    DeviceLock lock(mutex_);
    address = arena_->allocate(lock, bytes, hint, stream);
  }
  if (poison_) [[unlikely]] arena_->fill(address, bytes);
  return address;
}

void BudgetedAllocator::free(void* address) {
  if (poison_) [[unlikely]] {
    size_t bytes = 0;
    {
      DeviceLock lock(mutex_);
      bytes = block_bytes(address);
    }
    arena_->fill(address, bytes);  // still the caller's block
  }
  DeviceLock lock(mutex_);
  if (arena_->free(address)) [[unlikely]] arena_->poll(lock);
}

void BudgetedAllocator::free_checked(void* address, size_t bytes, StreamId stream) {
  DeviceLock lock(mutex_);
  if (arena_->free_checked(address, bytes, stream)) [[unlikely]] arena_->poll(lock);
}

void BudgetedAllocator::record_stream(void* address, StreamId user) {
  DeviceLock lock(mutex_);
  arena_->record_stream(address, user);
}

void BudgetedAllocator::record_stream_locked(void* address, StreamId user) {
  arena_->record_stream(address, user);
}

StreamUse BudgetedAllocator::use_so_far(StreamId stream) { return arena_->use_so_far(stream); }

void BudgetedAllocator::order_after(StreamId stream, StreamUse use, DeviceLock& lock) {
  arena_->order_after(lock, stream, use);
}

void BudgetedAllocator::free_locked(void* address) {
  if (poison_) [[unlikely]] arena_->fill(address, block_bytes(address));
  arena_->free(address);
}

void BudgetedAllocator::free_after(void* address, std::shared_ptr<Fence> fence) {
  DeviceLock lock(mutex_);
  arena_->free_after(address, std::move(fence));
}

bool BudgetedAllocator::contains(const void* address) const { return arena_->contains(address); }

size_t BudgetedAllocator::offset(const void* address) const { return arena_->offset(address); }

Owner BudgetedAllocator::owner(const void* address) const {
  return arena_->allocated_block(address).owner;
}

void BudgetedAllocator::set_owner(void* address, Owner owner) { owner_slot(address) = owner; }

Owner& BudgetedAllocator::owner_slot(void* address) {
  return arena_->allocated_block(address).owner;
}

size_t BudgetedAllocator::block_bytes(const void* address) const {
  return arena_->allocated_block(address).bytes;
}

StreamId BudgetedAllocator::stream(const void* address) const {
  return arena_->allocated_block(address).stream;
}

std::string BudgetedAllocator::misuse(const void* address) const {
  DeviceLock lock(mutex_);
  return arena_->misuse(address);
}

void BudgetedAllocator::suspend_stream_order() {
  DeviceLock lock(mutex_);
  arena_->suspend_order();
}

void BudgetedAllocator::resume_stream_order() {
  DeviceLock lock(mutex_);
  arena_->resume_order();
}

size_t BudgetedAllocator::compact(DeviceLock& lock, StreamId stream) {
  return arena_->compact(lock, stream);
}

size_t BudgetedAllocator::give_back_free_pages() {
  DeviceLock lock(mutex_);
  return arena_->give_back(lock);
}

size_t BudgetedAllocator::set_limit(size_t bytes) {
  DeviceLock lock(mutex_);
  return arena_->set_limit(lock, bytes);
}

std::vector<BlockView> BudgetedAllocator::blocks() const {
  DeviceLock lock(mutex_);
  return arena_->block_views();
}

void BudgetedAllocator::before_fork() {
  DeviceLock lock(mutex_);
  arena_->quiesce(lock);
  lock.release();
}

void BudgetedAllocator::after_fork_in_parent() { mutex_.unlock(); }

void BudgetedAllocator::after_fork_in_child() {
  arena_->become_forked_child();
  mutex_.unlock();
}

void BudgetedAllocator::become_forked_child() {
  DeviceLock lock(mutex_);
  arena_->become_forked_child();
}

AllocatorStatistics BudgetedAllocator::statistics() const {
  DeviceLock lock(mutex_);
  return arena_->statistics();
}

std::string BudgetedAllocator::trace_text() const {
  DeviceLock lock(mutex_);
  return arena_->trace_text();
}

size_t BudgetedAllocator::allocated_bytes() const { return arena_->allocated_bytes(); }

uint64_t BudgetedAllocator::prices() const { return arena_->prices(); }

uint32_t BudgetedAllocator::allocations() const { return arena_->allocations(); }

size_t BudgetedAllocator::committed_bytes() const {
  DeviceLock lock(mutex_);
  return arena_->committed_bytes();
}

size_t BudgetedAllocator::handle_bytes() const { return arena_->handle_bytes(); }

void BudgetedAllocator::check_invariants() const {
  DeviceLock lock(mutex_);
  arena_->check_invariants();
}

}  // namespace tidepool
