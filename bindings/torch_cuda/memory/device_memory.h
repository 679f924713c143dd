// DeviceMemory: arena, statistics and history of one CUDA device. It is made at the device's first
// allocation and never destroyed.
// Thread safe. Sizes are in bytes.
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "allocator/base/allocator_observer.h"
#include "allocator/budgeted_allocator.h"
#include "bindings/torch/engine/engine.h"
#include "bindings/torch_cuda/memory/device_statistics.h"
#include "bindings/torch_cuda/memory/memory_history.h"
#include "cuda/device_arena.h"

namespace tidepool::torch_cuda {

class DeviceMemory final : private AllocatorObserver {
 public:
  // `config.budget_bytes` is the budget of our arena and PyTorch's own pools on this device
  // together. Throws: DeviceError.
  DeviceMemory(c10::DeviceIndex index, const device::DriverFunctions& functions,
               AllocatorConfig config);

  c10::DeviceIndex index() const { return index_; }
  bool contains(const void* address) const { return arena_.contains(address); }

  // Throws: OutOfMemory; DeviceError.
  void* allocate(size_t bytes, cudaStream_t stream, PlacementHint hint);
  // Frees an allocated block. If the block has an owner, the runtime decides what becomes of it.
  void free(void* address);
  void give_back_free_pages();
  void record_stream(void* address, cudaStream_t user);
  // Keeps the contents of the block at this address for as long as their owner lives.
  void keep(const void* address);
  // Requires: an allocated block starts at `address`.
  size_t block_bytes(const void* address) { return arena_.block_bytes(address); }
  // The stream of the allocated block that starts at `address`.
  cudaStream_t stream_of(const void* address);
  // Whether an allocated block starts at `address`.
  bool owns_block(const void* address) const { return arena_.owns_block(address); }

  StreamId id_of(cudaStream_t stream) { return arena_.id_of(handle(stream)); }
  // Waits for all work on the device. Throws: DeviceError.
  void synchronize() { arena_.synchronize(); }
  // Sets the engine that evicts from this memory. Requires: there was no request yet; the engine
  // outlives the memory.
  void set_engine(torch_glue::Engine* engine) { engine_ = engine; }
  torch_glue::Engine* engine() const { return engine_; }

  // Does what BudgetedAllocator::set_limit() does.
  size_t set_limit(size_t limit) { return allocator().set_limit(limit); }
  size_t budget_bytes() const { return budget_bytes_; }

  // Copies to and from the host. The memory must outlive it.
  std::unique_ptr<CopyEngine> make_copy_engine() { return arena_.make_copy_engine(); }

  void add_peer(int ordinal) { arena_.add_peer(ordinal); }
  // Statistics together with PyTorch's own (see DeviceStatistics).
  DeviceStats statistics(const DeviceStats& native);
  void set_native(const DeviceStats& native);
  void reset_peaks();
  void reset_accumulated();
  void count_retry();
  void count_out_of_memory(size_t bytes, cudaStream_t stream);

  void configure_history(const MemoryHistory::Options& options);
  void add_tracker(AllocatorTraceTracker tracker);
  Context context_of(const void* address);
  // Adds an event of an allocated block, with the user's words, to the history. False: no block
  // starts there.
  bool add_words(TraceEntry::Action event, const void* address, const std::string& words);
  // One segment per run of committed pages; entries of the history, times still in ticks.
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments();
  // The entries of the history, with times in ticks.
  std::vector<TraceEntry> entries();
  size_t largest_free_block();

  BudgetedAllocator& allocator() { return arena_.allocator(); }
  const BudgetedAllocator& allocator() const { return arena_.allocator(); }

 private:
  // AllocatorObserver's functions. Require: lock held.
  void allocated(const BlockView& block) override;
  void freed(const BlockView& block, bool still_used) override;
  void awaiting(const BlockView& block, bool starts) override;
  void reserved(size_t bytes) override;
  void page(const void* address, size_t bytes, bool usable) override;
  // The driver's name for a stream of CUDA's runtime, which is the same stream.
  static device::driver::Stream handle(cudaStream_t stream) {
    return reinterpret_cast<device::driver::Stream>(stream);
  }
  void* handle_of(StreamId stream) const { return arena_.stream_of(stream); }

  const c10::DeviceIndex index_;
  const size_t budget_bytes_;
  torch_glue::Engine* engine_ = nullptr;
  DeviceStatistics statistics_;
  MemoryHistory history_;
  device::DeviceArena arena_;  // comes last: its constructor tells the others of its pages
};

}  // namespace tidepool::torch_cuda
