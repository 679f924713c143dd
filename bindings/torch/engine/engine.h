// Engine: puts together what Tidepool has for one device: the runtime and the PyTorch backend over
// the device's allocator. A process has engines for one kind of device, the CPU or its CUDA
// devices. What lives on other devices is foreign memory.
// Made while attaching (CPU) or at a device's first allocation (CUDA), never destroyed: storages
// outlive static destructors. Thread safe.
#pragma once

#include <c10/core/StorageImpl.h>

#include <atomic>
#include <memory>

#include "allocator/budgeted_allocator.h"
#include "bindings/torch/base/devices.h"
#include "bindings/torch/base/settings.h"
#include "bindings/torch/engine/foreign_copies.h"
#include "bindings/torch/engine/torch_backend.h"
#include "remat/plan/background/background_planner.h"
#include "remat/plan/follow/plan_follower.h"
#include "remat/record/trace_recorder.h"
#include "remat/runtime.h"

namespace tidepool::torch_glue {

class Engine {
 public:
  // `allocator` must outlive the engine. `tier`: where contents may go beside being forgotten.
  // Throws: std::invalid_argument naming an unknown policy, or one that does not go with a tier.
  Engine(c10::Device device, BudgetedAllocator& allocator, std::unique_ptr<TorchBackend> backend,
         const RuntimeSettings& settings, std::unique_ptr<remat::Tier> tier = nullptr);

  c10::Device device() const { return device_; }
  BudgetedAllocator& allocator() { return allocator_; }
  remat::Runtime& runtime() { return runtime_; }
  DeviceMutex& mutex() { return allocator_.mutex(); }
  TorchBackend& backend() { return *backend_; }
  ForeignCopies& foreign_copies() { return foreign_copies_; }
  const ForeignCopies& foreign_copies() const { return foreign_copies_; }

  // Whether each allocation has to give chaos a chance to evict.
  bool chaos_at_allocations() const { return chaos_at_allocations_; }

  // Whether a graph is being captured on the device. Then nothing may be restored, and all that
  // operators use stays where it is for good.
  bool capturing() const { return captures_.load(std::memory_order_relaxed) > 0; }
  // Restores everything, for a capture that is about to start. True if work of ours may still be
  // running. Throws: OutOfMemory if not everything fits.
  bool restore_everything();
  // These stand around a capture. Calls nest. Throws: std::runtime_error if something is evicted.
  void begin_capture();
  void end_capture();

  // These stand around the change of a switch or a kernel that recorded calls depend on. Calls
  // nest. Throws: OutOfMemory if not everything that is evicted fits.
  void begin_settling();
  void end_settling();

  // The job's trace is recorded.
  bool is_traced() const { return trace_recorder_ != nullptr; }
  // Who has to hear of all blocks, because steps or what is done for them may be recorded; nullptr:
  // nobody.
  AllocatorObserver* allocator_observer();
  // A step of the job has ended.
  void end_step();
  remat::BackgroundPlannerStatistics planning() const;
  // Adds a budget to try to the report of this thread's request, if one can be found.
  void find_budget_to_try(OutOfMemoryReport& report);
  // Completes the trace, and stops a search for a plan; nothing is recorded afterwards.
  void finish();

 private:
  const c10::Device device_;
  const bool chaos_at_allocations_;
  BudgetedAllocator& allocator_;
  std::unique_ptr<TorchBackend> backend_;
  std::unique_ptr<remat::TraceRecorder> trace_recorder_;
  remat::Runtime runtime_;
  ForeignCopies foreign_copies_;
  const bool waits_for_plans_;
  // At most one of these, and only where there is no recorder.
  std::unique_ptr<remat::BackgroundPlanner> planner_;
  std::unique_ptr<remat::PlanFollower> follower_;
  std::atomic<int> captures_{0};
};

// Makes the engine known, for good.
void add_engine(std::unique_ptr<Engine> engine);

namespace detail {
extern DeviceTable<Engine> g_engines;
extern std::atomic<uint64_t> g_out_of_memory_count;
extern std::atomic<int> g_captures;
uint64_t last_out_of_memory();  // the count after this thread's last one
}  // namespace detail

// The engine of a device; nullptr if it has none.
inline Engine* engine_of(c10::Device device) { return detail::g_engines.of(device); }
inline Engine* engine_of(c10::StorageImpl* storage) { return engine_of(device_of(storage)); }
// Whether an operator with operands of this engine, or of none, may have results of another.
inline bool has_engines_beside(const Engine* own) {
  return host_is_foreign() && (own == nullptr || detail::g_engines.size() > 1);
}
template <class Visit>
void for_each_engine(Visit&& visit) {
  detail::g_engines.for_each(visit);
}

// Whether a graph is being captured on any device. In CUDA's default mode that forbids queries of
// events on all of them.
inline bool any_captures() { return detail::g_captures.load(std::memory_order_relaxed) > 0; }

// Remembers what an out-of-memory error on this thread said, which becomes PyTorch's exception now.
void note_out_of_memory(const OutOfMemoryReport& report);
// How many of them there have been in this process.
inline uint64_t out_of_memory_count() {
  return detail::g_out_of_memory_count.load(std::memory_order_relaxed);
}
// Whether this thread has had such an error since the count was `before`. An operator that ends
// well nevertheless has gone on with less memory, perhaps by another algorithm.
inline bool ran_out_of_memory_since(uint64_t before) {
  return out_of_memory_count() != before && detail::last_out_of_memory() > before;
}
// Says once that this operator was refused memory, which it would have had without a budget.
void say_inexact(const char* name);
// Rethrows our own out-of-memory error as PyTorch's exception type. Called in a catch block.
[[noreturn]] void rethrow_as_torch_error(Engine& engine);
// Throws our own out-of-memory error again, with the report of this thread's last one, for a kernel
// that ran within a restoration. Called in a catch block of c10::OutOfMemoryError.
[[noreturn]] void rethrow_as_our_error();

}  // namespace tidepool::torch_glue
