// WorkRecorder: writes down what is done for the job on one device (the setting `record`) in a file
// (remat/record/work_ring.h): it hears of it as an observer of the device's allocator, and by calls
// from the backend and the engine. Passes on to another observer what it hears of the allocator.
// What the job itself does is for the TraceRecorder; a remat::Record is something else.
// Made with the engine, never destroyed. Thread safe; an observer is called with the device's lock
// held.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "allocator/base/allocator_observer.h"
#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/devices.h"
#include "remat/record/work_ring.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue {

class WorkRecorder final : public RelayingObserver {
 public:
  // `next` hears of the allocator, too; nullptr: nobody.
  WorkRecorder(const std::string& path, size_t bytes, const remat::WorkRingFacts& facts,
               BudgetedAllocator& allocator, AllocatorObserver* next);

  void evicted(const remat::Storage& storage, const void* address);
  void restored(const remat::Storage& storage, const void* address);
  void forgotten(const remat::Storage& storage) { ring_.forgotten(&storage); }
  void replayed(const char* operator_name, uint64_t ns) { ring_.replayed(operator_name, ns); }
  void copied(const void* from, size_t bytes) { ring_.copied(allocator_.offset(from), bytes); }
  void limited(size_t bytes) { ring_.limited(bytes); }
  void out_of_memory(size_t bytes) { ring_.out_of_memory(bytes); }
  // Requires: lock not held.
  void step_ended(remat::Runtime& runtime);
  void finish() { ring_.finish(); }
  void become_forked_child() { ring_.become_forked_child(); }

  void allocated(const BlockView& block) override;
  void freed(const BlockView& block, bool still_used) override;
  void reserved(size_t bytes) override;

 private:
  remat::WorkRing ring_;
  BudgetedAllocator& allocator_;
};

namespace detail {
extern DeviceTable<WorkRecorder> g_work_recorders;
extern std::atomic<bool> g_recording;  // whether any device has a recorder
extern constinit thread_local const char* t_operator;
}  // namespace detail

// The recorder of a device; nullptr if what is done on it is not recorded.
inline WorkRecorder* work_recorder_of(c10::Device device) {
  return detail::g_work_recorders.of(device);
}

// Says which operator asks for memory on this thread from now on; nullptr: none. The name lives as
// long as the process.
inline void note_operator(const char* name) {
  if (detail::g_recording.load(std::memory_order_relaxed)) [[unlikely]]
    detail::t_operator = name;
}

// The operator that asks for memory on this thread while the scope lasts.
class OperatorScope {
 public:
  explicit OperatorScope(const char* name) : around_(detail::t_operator) { note_operator(name); }
  ~OperatorScope() { note_operator(around_); }
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  const char* const around_;
};

// Reads "record": {"path": str, "name": str, "bytes": int} of tidepool_attach()'s settings: engines
// that are made afterwards are recorded. Throws: std::invalid_argument naming the entry.
void read_work_recorder_settings(const char* settings);

// Tells all recorders that so many bytes may be held from each device.
void tell_work_recorders_of_limit(size_t bytes);

// Starts to record what is done on a device, if that was asked for. What goes wrong is said on
// stderr, and the job goes on. Requires: the device has no recorder. `next`: as WorkRecorder has
// it.
void start_work_recorder(c10::Device device, BudgetedAllocator& allocator, AllocatorObserver* next);

}  // namespace tidepool::torch_glue
