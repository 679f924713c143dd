#include "bindings/torch_cuda/memory/memory_history.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "allocator/base/per_thread.h"

namespace tidepool::torch_cuda {
namespace {

std::vector<std::string>& regions() { return PerThread<std::vector<std::string>>::get(); }

}  // namespace

void MemoryHistory::configure(const Options& options) {
  TORCH_CHECK(options.when == RecordContext::NEVER || options.recorder != nullptr,
              "stacks are asked for, but there is nothing to record them with");
  enabled_ = options.enabled;
  recorder_ = options.enabled ? options.recorder : nullptr;
  when_ = options.enabled ? options.when : RecordContext::NEVER;
  watched_ = enabled_ || !trackers_.empty();
  skipped_.clear();
  for (const std::string& name : options.skipped) {
    const auto action =
        static_cast<size_t>(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
    if (skipped_.size() <= action) skipped_.resize(action + 1);
    skipped_[action] = true;
  }
  if (!options.enabled || options.clear) {
    ring_.clear();
    contexts_.clear();
  } else {  // a ring that gets another length has to start with its oldest entry
    ring_ = entries();
  }
  most_entries_ = std::max<size_t>(1, options.most_entries);
  if (ring_.size() > most_entries_) {
    ring_.erase(ring_.begin(), ring_.end() - static_cast<ptrdiff_t>(most_entries_));
  }
  next_ = 0;
}

void MemoryHistory::add_tracker(AllocatorTraceTracker tracker) {
  trackers_.push_back(std::move(tracker));
  watched_ = true;
}

Context MemoryHistory::gather(RecordContext level) const {
  if (when_.load(std::memory_order_relaxed) < level) return nullptr;
  const CreateContextFn recorder = recorder_.load(std::memory_order_relaxed);
  return recorder != nullptr ? recorder() : nullptr;
}

EventNotes MemoryHistory::notes(RecordContext level) const {
  EventNotes notes;
  notes.context = gather(level);
  if (!regions().empty()) notes.region = regions().back();
  notes.metadata = c10::cuda::CUDACachingAllocator::get()->getUserMetadata();
  return notes;
}

void MemoryHistory::enter_region(const std::string& name) { regions().push_back(name); }

void MemoryHistory::leave_region() {
  if (!regions().empty()) regions().pop_back();
}

void MemoryHistory::add(TraceEntry::Action action, const void* address, size_t bytes, void* stream,
                        const EventNotes& notes) {
  const auto number = static_cast<size_t>(action);
  const bool skipped = number < skipped_.size() && skipped_[number];
  const bool kept = enabled_ && !skipped;
  if (!kept && trackers_.empty()) return;
  TraceEntry entry(action, device_, reinterpret_cast<size_t>(address), bytes, stream,
                   c10::MempoolId_t{0, 0}, c10::getApproximateTime(),
                   when_ >= RecordContext::ALLOC ? notes.context : nullptr, notes.region,
                   notes.metadata);
  for (const AllocatorTraceTracker& tracker : trackers_) tracker(entry);
  if (!kept) return;
  if (ring_.size() < most_entries_) {
    ring_.push_back(std::move(entry));
  } else {
    ring_[next_] = std::move(entry);
    next_ = (next_ + 1) % ring_.size();
  }
}

void MemoryHistory::block_allocated(const void* address, Context context) {
  if (context != nullptr) contexts_[address] = std::move(context);
}

Context MemoryHistory::context_of(const void* address) const {
  auto found = contexts_.find(address);
  return found != contexts_.end() ? found->second : nullptr;
}

std::vector<TraceEntry> MemoryHistory::entries() const {
  std::vector<TraceEntry> in_order;
  in_order.reserve(ring_.size());
  for (size_t i = 0; i < ring_.size(); ++i) in_order.push_back(ring_[(next_ + i) % ring_.size()]);
  return in_order;
}

}  // namespace tidepool::torch_cuda
