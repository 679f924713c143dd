#include "bindings/torch_cuda/memory/device_memory.h"

#include <algorithm>
#include <utility>

namespace tidepool::torch_cuda {
namespace {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

// What a call of ours on this thread has to say of the events that the observer is about to hear
// of: stacks have to be gathered before the lock is taken.
thread_local EventNotes t_notes;

AllocatorObserver* meter_of(torch_glue::Engine* engine) {
  return engine != nullptr ? engine->allocator_observer() : nullptr;
}

class NotesScope {
 public:
  explicit NotesScope(EventNotes notes) { t_notes = std::move(notes); }
  ~NotesScope() { t_notes = {}; }
  NotesScope(const NotesScope&) = delete;
  NotesScope& operator=(const NotesScope&) = delete;
};

}  // namespace

DeviceMemory::DeviceMemory(c10::DeviceIndex index, const device::DriverFunctions& functions,
                           AllocatorConfig config)
    : index_(index),
      budget_bytes_(config.budget_bytes),
      history_(index),
      arena_(functions, index, config, this) {}

void* DeviceMemory::allocate(size_t bytes, cudaStream_t stream, PlacementHint hint) {
  if (!history_.watched()) [[likely]]
    return arena_.allocate(bytes, handle(stream), hint);
  NotesScope scope(history_.notes(RecordContext::STATE));
  return arena_.allocate(bytes, handle(stream), hint);
}

void DeviceMemory::free(void* address) {
  const auto release = [&] {
    engine_ != nullptr ? engine_->runtime().free(address) : arena_.free(address);
  };
  if (!history_.watched()) [[likely]]
    return release();
  NotesScope scope(history_.notes(RecordContext::ALL));
  release();
}

void DeviceMemory::give_back_free_pages() {
  if (!history_.watched()) [[likely]] {
    allocator().give_back_free_pages();
    return;
  }
  NotesScope scope(history_.notes(RecordContext::ALL));
  allocator().give_back_free_pages();
}

void DeviceMemory::record_stream(void* address, cudaStream_t user) {
  arena_.record_stream(address, handle(user));
  if (engine_ == nullptr) return;
  DeviceLock lock(arena_.mutex());
  if (remat::Storage* storage = engine_->runtime().find(address)) {
    engine_->backend().remember_stream(*storage, arena_.id_of(handle(user)));
    engine_->runtime().note_use(*storage, arena_.id_of(handle(user)));
  }
}

void DeviceMemory::keep(const void* address) {
  if (engine_ == nullptr) return;
  DeviceLock lock(arena_.mutex());
  if (remat::Storage* storage = engine_->runtime().find(address)) storage->fixed = true;
}

cudaStream_t DeviceMemory::stream_of(const void* address) {
  DeviceLock lock(arena_.mutex());
  return static_cast<cudaStream_t>(handle_of(allocator().stream(address)));
}

// --- AllocatorObserver ---------------------------------------------------------------------------

void DeviceMemory::allocated(const BlockView& block) {
  if (AllocatorObserver* meter = meter_of(engine_)) [[unlikely]]
    meter->allocated(block);
  statistics_.allocated(block.requested_bytes, block.bytes);
  if (!history_.watched()) [[likely]]
    return;
  history_.block_allocated(block.address, t_notes.context);
  history_.add(TraceEntry::ALLOC, block.address, block.requested_bytes, handle_of(block.stream),
               t_notes);
}

void DeviceMemory::freed(const BlockView& block, bool still_used) {
  if (AllocatorObserver* meter = meter_of(engine_)) [[unlikely]]
    meter->freed(block, still_used);
  statistics_.freed(block.requested_bytes, block.bytes);
  history_.block_freed(block.address);
  if (!history_.watched()) [[likely]]
    return;
  void* stream = handle_of(block.stream);
  history_.add(TraceEntry::FREE_REQUESTED, block.address, block.requested_bytes, stream, t_notes);
  if (!still_used) {
    history_.add(TraceEntry::FREE_COMPLETED, block.address, block.requested_bytes, stream, t_notes);
  }
}

void DeviceMemory::awaiting(const BlockView& block, bool starts) {
  statistics_.awaiting(block.bytes, starts);
  if (starts || !history_.watched()) return;
  history_.add(TraceEntry::FREE_COMPLETED, block.address, block.bytes, handle_of(block.stream),
               t_notes);
}

void DeviceMemory::reserved(size_t bytes) {
  if (AllocatorObserver* meter = meter_of(engine_)) [[unlikely]]
    meter->reserved(bytes);
  statistics_.reserved(bytes, arena_.allocator().page_bytes());
}

void DeviceMemory::page(const void* address, size_t bytes, bool usable) {
  if (!history_.watched()) return;
  history_.add(usable ? TraceEntry::SEGMENT_MAP : TraceEntry::SEGMENT_UNMAP, address, bytes,
               nullptr, t_notes);
}

// --- Statistics and history ----------------------------------------------------------------------

DeviceStats DeviceMemory::statistics(const DeviceStats& native) {
  DeviceLock lock(arena_.mutex());
  return statistics_.combined(native);
}

void DeviceMemory::set_native(const DeviceStats& native) {
  DeviceLock lock(arena_.mutex());
  statistics_.set_native(native);
}

void DeviceMemory::reset_peaks() {
  DeviceLock lock(arena_.mutex());
  statistics_.reset_peaks();
}

void DeviceMemory::reset_accumulated() {
  DeviceLock lock(arena_.mutex());
  statistics_.reset_accumulated();
}

void DeviceMemory::count_retry() {
  DeviceLock lock(arena_.mutex());
  statistics_.add_retry();
}

void DeviceMemory::count_out_of_memory(size_t bytes, cudaStream_t stream) {
  const EventNotes notes = history_.notes(RecordContext::STATE);
  const size_t committed = arena_.allocator().committed_bytes();
  DeviceLock lock(arena_.mutex());
  statistics_.add_out_of_memory();
  // An entry of this kind has the number of free bytes in place of an address.
  history_.add(TraceEntry::OOM,
               reinterpret_cast<void*>(budget_bytes_ - std::min(budget_bytes_, committed)), bytes,
               stream, notes);
}

void DeviceMemory::configure_history(const MemoryHistory::Options& options) {
  DeviceLock lock(arena_.mutex());
  history_.configure(options);
}

void DeviceMemory::add_tracker(AllocatorTraceTracker tracker) {
  DeviceLock lock(arena_.mutex());
  history_.add_tracker(std::move(tracker));
}

Context DeviceMemory::context_of(const void* address) {
  DeviceLock lock(arena_.mutex());
  return history_.context_of(address);
}

bool DeviceMemory::add_words(TraceEntry::Action event, const void* address,
                             const std::string& words) {
  if (!owns_block(address)) return false;
  if (!history_.watched()) return true;
  const size_t bytes = block_bytes(address);
  EventNotes notes = history_.notes(RecordContext::ALLOC);
  notes.metadata = words;
  cudaStream_t stream = stream_of(address);
  DeviceLock lock(arena_.mutex());
  history_.add(event, address, bytes, stream, notes);
  return true;
}

std::vector<SegmentInfo> DeviceMemory::segments() {
  std::vector<SegmentInfo> segments;
  bool open = false;
  for (const BlockView& block : arena_.allocator().blocks()) {
    if (block.use == BlockUse::kHole) {
      open = false;
      continue;
    }
    if (!open) {
      SegmentInfo& segment = segments.emplace_back();
      segment.device = index_;
      segment.address = reinterpret_cast<size_t>(block.address);
      segment.is_large = segment.is_expandable = open = true;
    }
    SegmentInfo& segment = segments.back();
    BlockInfo& info = segment.blocks.emplace_back();
    info.size = block.bytes;
    info.requested_size = block.requested_bytes;
    info.allocated = block.use == BlockUse::kAllocated;
    info.active = block.use != BlockUse::kFree;
    if (info.allocated) info.context_when_allocated = context_of(block.address);
    segment.total_size += block.bytes;
    segment.requested_size += block.requested_bytes;
    if (info.allocated) segment.allocated_size += block.bytes;
    if (info.active) segment.active_size += block.bytes;
  }
  return segments;
}

std::vector<TraceEntry> DeviceMemory::entries() {
  DeviceLock lock(arena_.mutex());
  return history_.entries();
}

size_t DeviceMemory::largest_free_block() {
  size_t largest = 0;
  for (const BlockView& block : arena_.allocator().blocks()) {
    if (block.use == BlockUse::kFree) largest = std::max(largest, block.bytes);
  }
  return largest;
}

}  // namespace tidepool::torch_cuda
