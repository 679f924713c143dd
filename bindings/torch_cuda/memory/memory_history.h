// MemoryHistory: what torch.cuda.memory._record_memory_history asks for of one device: a ring of
// trace entries, the Python stacks of live blocks, and functions that watch every event.
// Thread safe: recording requires the device's lock; gather() and notes() must be called without
// it, since they may take Python's.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tidepool::torch_cuda {

using c10::CachingDeviceAllocator::AllocatorTraceTracker;
using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;
using Context = std::shared_ptr<c10::GatheredContext>;

// What a call says of the events that it causes.
struct EventNotes {
  Context context;             // the calling stack, where it is wanted
  std::string region = "N/A";  // of torch.compile
  std::string metadata;        // the user's
};

class MemoryHistory {
 public:
  explicit MemoryHistory(c10::DeviceIndex device) : device_(device) {}

  struct Options {
    bool enabled = false;
    CreateContextFn recorder = nullptr;
    size_t most_entries = 1;
    RecordContext when = RecordContext::NEVER;
    bool clear = false;
    std::vector<std::string> skipped;  // actions, as _record_memory_history names them
  };
  void configure(const Options& options);
  void add_tracker(AllocatorTraceTracker tracker);

  // Whether somebody wants entries. If not, no function below has an effect.
  bool watched() const { return watched_.load(std::memory_order_relaxed); }
  // The calling thread's Python stack if stacks of this level are wanted; else null.
  Context gather(RecordContext level) const;
  // Notes of the calling thread, its stack where stacks of this kind are wanted.
  EventNotes notes(RecordContext level) const;

  // The calling thread enters, or leaves, a region of torch.compile.
  static void enter_region(const std::string& name);
  static void leave_region();

  // Adds an entry. `stream` is a cudaStream_t.
  void add(TraceEntry::Action action, const void* address, size_t bytes, void* stream,
           const EventNotes& notes);
  void block_allocated(const void* address, Context context);
  void block_freed(const void* address) {
    if (!contexts_.empty()) contexts_.erase(address);
  }
  Context context_of(const void* address) const;
  // The entries, the oldest first, with times in ticks.
  std::vector<TraceEntry> entries() const;

 private:
  const c10::DeviceIndex device_;
  std::atomic<bool> watched_{false};
  std::atomic<CreateContextFn> recorder_{nullptr};
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  bool enabled_ = false;
  size_t most_entries_ = 1;
  size_t next_ = 0;  // the place of the next entry in the ring
  std::vector<TraceEntry> ring_;
  std::vector<bool> skipped_;  // by action: whether it gets no entries
  std::vector<AllocatorTraceTracker> trackers_;
  absl::flat_hash_map<const void*, Context> contexts_;  // by the addresses of live blocks
};

}  // namespace tidepool::torch_cuda
