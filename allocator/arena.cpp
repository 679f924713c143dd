#include "allocator/arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/check.h"
#include "allocator/sizes.h"

namespace tidepool {

namespace {

// Bins may hold this part of the budget back from merging.
constexpr size_t kBinsShare = 16;

// A pinned block keeps the pages it touches from being moved, so a budget of few pages wastes much:
// of requests that should just fit, with 5 % to spare, 64 pages refused 15 %, 512 pages 0.05 %.
// Above 2 MiB (a huge page, and the granularity of GPUs) only the page table gets shorter.
size_t automatic_handle_bytes(const AllocatorConfig& config, const AddressSpace& space) {
  constexpr size_t kLeast = 4 * kKiB, kMost = 2 * kMiB, kPages = 1024;
  size_t bytes = std::max({kLeast, space.granularity(), config.alignment * 16});
  while (bytes < kMost && bytes * kPages < config.budget_bytes) bytes *= 2;
  // However many there are, the device must be able to map each at a place of its own.
  while (config.budget_bytes / bytes > space.mapping_limit() / 2) bytes *= 2;
  return bytes;
}

AllocatorConfig checked(AllocatorConfig config, const AddressSpace& space) {
  auto refuse = [](const std::string& why) { throw std::invalid_argument(why); };
  if (!is_power_of_two(config.alignment)) {
    refuse(fmt::format("alignment: {} is not a power of two", config.alignment));
  }
  if (config.handle_bytes == 0) config.handle_bytes = automatic_handle_bytes(config, space);
  if (!is_power_of_two(config.handle_bytes) || config.handle_bytes < config.alignment * 16 ||
      config.handle_bytes % space.granularity() != 0) {
    refuse(fmt::format("handle_bytes: {} has to be a power of two, at least 16 alignments ({}) and "
                       "a multiple of the memory's granularity ({})",
                       config.handle_bytes, config.alignment * 16, space.granularity()));
  }
  if (config.budget_bytes < config.handle_bytes) {
    refuse(fmt::format("budget_bytes: {} is less than one handle ({})",
                       human_and_exact_bytes(config.budget_bytes),
                       human_and_exact_bytes(config.handle_bytes)));
  }
  constexpr size_t kGreatestBudget = size_t{1} << 44;
  if (config.budget_bytes > kGreatestBudget) {
    refuse(fmt::format("budget_bytes: {} is more than {}",
                       human_and_exact_bytes(config.budget_bytes), human_bytes(kGreatestBudget)));
  }
  if (!space.has_virtual_memory()) {  // what is reserved is held
    config.allow_remap = false;
    config.budget_bytes = config.range_bytes =
        round_down(config.budget_bytes, config.handle_bytes * 8);
    if (config.budget_bytes == 0) refuse("budget_bytes: less than eight handles");
  }
  if (config.range_bytes == 0) {
    config.range_bytes = std::max(config.budget_bytes * 8, config.handle_bytes * 64);
  }
  if (config.range_bytes < config.budget_bytes) {
    refuse(fmt::format("range_bytes: {} is less than the budget of {}",
                       human_and_exact_bytes(config.range_bytes),
                       human_and_exact_bytes(config.budget_bytes)));
  }
  config.range_bytes = round_up(config.range_bytes, config.handle_bytes * 8);
  return config;
}

}  // namespace

Arena::Arena(AddressSpace& space, const AllocatorConfig& config)
    : space_(space),
      config_(checked(config, space)),
      base_(space.reserve(config_.range_bytes)),
      heap_(config_.range_bytes, config_.handle_bytes, config_.alignment,
            config_.budget_bytes / kBinsShare, clocks_,
            config_.one_zone ? kOneZoneEighths : kZoneEighths),
      pages_(config_.range_bytes / config_.handle_bytes,
             config_.budget_bytes / config_.handle_bytes),
      selector_(config_.handle_bytes),
      remap_ns_per_handle_(static_cast<double>(config_.remap_ns_per_handle)),
      trace_(config_.trace_events) {
  counts_.budget_bytes = config_.budget_bytes;
  heap_.set_observer(nullptr, base_);  // views name addresses, whoever looks
  if (!space_.has_virtual_memory()) commit_everything();
}

void Arena::commit_everything() {
  PageTransaction transaction(space_, base_, config_.handle_bytes);
  std::vector<BlockId> zones;
  for (Zone zone : kZones) {
    const BlockId id = heap_.first_hole(zone);
    if (id == BlockId::kNone) continue;  // a zone without addresses
    zones.push_back(heap_.claim(id, heap_[id].offset, heap_[id].end()));
  }
  for (size_t page = 0; page < pages_.page_count(); ++page) transaction.commit(pages_, page);
  transaction.run();
  transaction.apply(pages_);
  for (BlockId id : zones) heap_.settle(id, pages_);
  note_reserved();
  if (transaction.succeeded()) return;
  give_everything_back();
  throw DeviceError(transaction.error());
}

Arena::~Arena() { give_everything_back(); }

void Arena::give_everything_back() {
  // Whatever the device refuses here is lost to the process, not to correctness.
  try {
    if (order_ != nullptr) order_->finish();
  } catch (const DeviceError&) {
    // A device that is gone has nothing left to run.
  }
  PageTransaction transaction(space_, base_, config_.handle_bytes);
  for (size_t page = 0; page < pages_.page_count(); ++page) {
    if (pages_.page(page).state != PageTable::PageState::kEmpty) {
      transaction.give_back(pages_, page);
    }
  }
  while (pages_.spare_count() > 0) transaction.give_back_spare(pages_);
  transaction.run();
  try {
    space_.release_range(base_, config_.range_bytes);
  } catch (const DeviceError&) {
    // See above.
  }
}

void Arena::set_reclaimer(Reclaimer* reclaimer) {
  TIDEPOOL_CHECK(reclaimer_ == nullptr, "set_reclaimer was called before, %p",
                 static_cast<void*>(reclaimer));
  reclaimer_ = reclaimer;
  prices_free_beside_ = reclaimer->asks_for_free_beside();
  allows_shortlists_ = reclaimer->allows_shortlists();
}

void Arena::set_observer(AllocatorObserver* observer) {
  observer_ = observer;
  heap_.set_observer(observer, base_);
  note_reserved();
}

void* Arena::allocate(DeviceLock& lock, size_t bytes, PlacementHint hint, StreamId stream) {
  TIDEPOOL_CHECK(bytes > 0, "allocation of %zu bytes", bytes);
  // More than the range cannot be rounded up safely, and is refused by make_room in any case.
  size_t rounded = bytes > config_.range_bytes ? config_.range_bytes + 1
                                               : round_up(bytes, config_.alignment);
  Zone zone = config_.one_zone
                  ? Zone::kTransient
                  : zone_for(rounded, hint, config_.handle_bytes, config_.coarse_placement);
  if (stream != StreamId::kDefault) [[unlikely]] know(stream);
  if (heap_.requested_bytes() + bytes > config_.requested_limit_bytes) [[unlikely]] {
    make_bytes(lock, {bytes, rounded, zone, stream});
  }
  BlockId id = heap_.take_cached(zone, rounded, stream);
  if (id == BlockId::kNone) [[unlikely]] {
    const End end = hint == PlacementHint::kCheap ? End::kHigh : End::kLow;
    id = heap_.take_free(zone, rounded, stream, end);
    if (id == BlockId::kNone) id = make_room(lock, {bytes, rounded, zone, stream, end});
  }
  heap_.set_requested(id, bytes);
  heap_[id].set_origin({allocations(), Origin::number_of(Origin::this_thread())});
  ++counts_.allocations;
  counts_.allocated_peak_bytes = std::max(counts_.allocated_peak_bytes, heap_.allocated_bytes());
  counts_.requested_peak_bytes = std::max(counts_.requested_peak_bytes, heap_.requested_bytes());
  Address address = address_of(id);
  trace_.add(TraceKind::kAllocate, address.value, rounded);
  if (observer_ != nullptr) [[unlikely]] observer_->allocated(heap_.view(id));
  return address.pointer();
}

bool Arena::free_block(BlockId id) {
  trace_.add(TraceKind::kFree, address_of(id).value, heap_[id].bytes);
  ++counts_.frees;
  const bool shared = heap_[id].shared;
  if (observer_ != nullptr) [[unlikely]] observer_->freed(heap_.view(id), shared);
  heap_.release(id);
  return shared && ++batch_blocks_ >= kBatchBlocks;
}

bool Arena::free_checked(void* address, size_t bytes, StreamId stream) {
  BlockId id = block_at(address);
  const Block& block = heap_[id];
  TIDEPOOL_CHECK(block.requested_bytes == bytes && block.stream == stream,
                 "%p is freed as %zu bytes of stream %u, but is %zu bytes of stream %u", address,
                 bytes, static_cast<unsigned>(stream), block.requested_bytes,
                 static_cast<unsigned>(block.stream));
  return free_block(id);
}

std::string Arena::misuse(const void* address) const {
  if (!contains(address)) {
    return fmt::format("{} is not of this allocator's range, {} to {}", fmt::ptr(address),
                       fmt::ptr(base_.pointer()),
                       fmt::ptr((base_ + heap_.range_bytes()).pointer()));
  }
  const size_t offset = offset_of(address);
  if (heap_.allocated_at(offset) != BlockId::kNone) return {};
  BlockId id = heap_.blocks().first();
  while (heap_[id].end() <= offset) id = heap_[id].next;
  if (heap_[id].state != BlockState::kAllocated) {
    return fmt::format("no allocated block starts at {} (freed twice?)", fmt::ptr(address));
  }
  return fmt::format("no allocated block starts at {}: it is inside one of {} bytes at {}",
                     fmt::ptr(address), heap_[id].bytes, fmt::ptr(address_of(id).pointer()));
}

void Arena::refuse_address(const void* address) const {
  TIDEPOOL_CHECK(false, "%s", misuse(address).c_str());
}

void Arena::free_after(void* address, std::shared_ptr<Fence> fence) {
  BlockId id = block_at(address);
  trace_.add(TraceKind::kFree, Address::of(address).value, heap_[id].bytes);
  ++counts_.frees;
  heap_.set_awaiting_host(id);
  deferred_.push_back({heap_.blocks().ref(id), std::move(fence)});
}

void Arena::become_forked_child() {
  reclaimer_ = nullptr;
  order_ = nullptr;  // a device does not exist in a child
  in_flight_ = 0;  // their threads do not exist here
  pages_.set_budget(pages_.page_count());
  counts_.budget_bytes = config_.range_bytes;
}

void Arena::quiesce(DeviceLock& lock) {
  in_flight_change_.wait(lock, [this] { return in_flight_ == 0; });
}

void Arena::note_reserved() {
  counts_.reserved_peak_bytes = std::max(counts_.reserved_peak_bytes, committed_bytes());
  if (observer_ != nullptr) observer_->reserved(committed_bytes());
}

size_t Arena::set_limit(DeviceLock& lock, size_t bytes) {
  const size_t handles = std::min(bytes, counts_.budget_bytes) / config_.handle_bytes;
  pages_.set_budget(std::max(handles, pages_.committed()));
  if (handles < pages_.committed()) give_back(lock);
  pages_.set_budget(std::max(handles, pages_.committed()));
  return pages_.budget() * config_.handle_bytes;
}

std::vector<BlockView> Arena::block_views() const {
  std::vector<BlockView> views;
  views.reserve(heap_.blocks().count());
  for (BlockId id = heap_.blocks().first(); id != BlockId::kNone; id = heap_[id].next) {
    views.push_back(heap_.view(id));
  }
  return views;
}

AllocatorStatistics Arena::statistics() const {
  AllocatorStatistics result = counts_;
  result.allocated_bytes = heap_.allocated_bytes();
  result.requested_bytes = heap_.requested_bytes();
  result.reserved_bytes = committed_bytes();
  result.awaiting_bytes = heap_.awaiting_bytes();
  return result;
}

void Arena::check_invariants() const {
  pages_.check_invariants();
  heap_.check_invariants(pages_);
  room_.check_invariants();
  shortlists_.check_invariants();
  TIDEPOOL_CHECK(committed_bytes() <= counts_.budget_bytes, "(1) %zu bytes committed of %zu",
                 committed_bytes(), counts_.budget_bytes);
  size_t awaiting = 0;
  size_t claimed = 0;
  for (BlockId id = heap_.blocks().first(); id != BlockId::kNone; id = heap_[id].next) {
    awaiting += heap_[id].state == BlockState::kAwaitingHost;
    claimed += heap_[id].state == BlockState::kClaimed;
  }
  TIDEPOOL_CHECK(awaiting == deferred_.size(), "%zu blocks await a fence, %zu fences", awaiting,
                 deferred_.size());
  TIDEPOOL_CHECK(claimed == 0 || in_flight_ > 0, "(3) %zu blocks are claimed by nobody", claimed);
}

}  // namespace tidepool
