// CudaAllocator: PyTorch's CUDA allocator with a budget. It serves ordinary requests from an arena
// of ours for each device, and hands all that belongs to pools of graphs and MemPools on to
// PyTorch's own allocator, under one budget. Statistics, snapshots, histories and observers are as
// jobs know them of PyTorch's allocator (docs/cuda-allocator.md has the table).
// install() makes it once, and it is never destroyed: storages outlive static destructors. Thread
// safe.
#pragma once

#include <c10/core/StorageImpl.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "allocator/budgeted_allocator.h"
#include "allocator/heap/call_sites.h"
#include "bindings/torch/storage/storage_access.h"
#include "bindings/torch_cuda/cuda_devices.h"
#include "bindings/torch_cuda/memory/device_memory.h"
#include "bindings/torch_cuda/memory/foreign_users.h"
#include "bindings/torch_cuda/memory/out_of_memory_observers.h"
#include "bindings/torch_cuda/memory/workspaces.h"
#include "bindings/torch_cuda/settings.h"
#include "forwarding_allocator.h"

namespace tidepool::torch_cuda {

using c10::DataPtr;
using c10::cuda::CUDAStream;
using c10::cuda::CUDACachingAllocator::ShareableHandle;
using torch_glue::delete_block;

class CudaAllocator final : public ForwardingAllocator {
 public:
  // Makes a CudaAllocator PyTorch's CUDA allocator for good, before or after CUDA is initialised.
  // Touches no device. Throws: std::runtime_error if another allocator than PyTorch's own is in
  // use.
  static void install(const Settings& settings);
  static CudaAllocator* installed();

  DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t count) const override;
  void* raw_alloc(size_t bytes) override;
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* address) override;
  void recordStream(const DataPtr& data, CUDAStream stream) override;
  using ForwardingAllocator::recordStream;

  void init(int device_count) override;
  void enable(bool value) override;
  void emptyCache(MempoolId_t pool) override;
  double getMemoryFraction(DeviceIndex device) override;
  void setMemoryFraction(double fraction, DeviceIndex device) override;
  void cacheInfo(DeviceIndex device, size_t* largest) override;
  void* getBaseAllocation(void* address, size_t* bytes) override;

  DeviceStats getDeviceStats(DeviceIndex device) override;
  void resetAccumulatedStats(DeviceIndex device) override;
  void resetPeakStats(DeviceIndex device) override;
  SnapshotInfo snapshot(MempoolId_t pool, bool traces) override;
  void recordHistory(bool enabled, CreateContextFn recorder, size_t most_entries,
                     RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override;
  void pushCompileContext(std::string& name) override;
  void popCompileContext() override;
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override;
#ifdef TIDEPOOL_INTERFACE_HAS_getContextForPointer
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* address) override;
#endif
#ifdef TIDEPOOL_INTERFACE_HAS_annotateMemory
  void annotateMemory(const void* address, const std::string& words) override;
#endif
#ifdef TIDEPOOL_INTERFACE_HAS_markCaptureBegin
  void markCaptureBegin(DeviceIndex device) override;
  void markCaptureEnd(DeviceIndex device) override;
#endif

  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool, StreamFilter filter) override;
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override;
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override;
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      DeviceIndex device,
      std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) override;
  ShareableHandle shareIpcHandle(void* address) override;
  // From now on work on `device` may access all memory of `accessed`, also what it allocates later.
  void enablePeerAccess(DeviceIndex device, DeviceIndex accessed) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                          cudaStream_t stream, bool peer_access) override;

  bool set_limit(size_t bytes) { return devices_.set_limit(bytes); }

  // Moves the contents of one of our blocks into memory of PyTorch's own allocator, which other
  // processes can map. The storage has another address then.
  void make_shareable(c10::StorageImpl* storage);
  // Tells observers and statistics that memory has run out, and throws PyTorch's error.
  [[noreturn]] void raise_out_of_memory(DeviceMemory& memory, const OutOfMemoryReport& report);
  // Frees a block, of the arena or of PyTorch's own allocator.
  void free(void* address);
  // Statistics as JSON, with a member "cuda:0" and so on for each device that has allocated.
  std::string statistics_json() { return devices_.statistics_json(); }

 private:
  CudaAllocator(CUDAAllocator& native, const Settings& settings);

  // `site`: the caller's code, if the caller may keep the block for its own use; else null.
  void* allocate_on(DeviceIndex device, cudaStream_t stream, size_t bytes,
                    const void* site = nullptr);
  void* allocate_native(DeviceIndex device, cudaStream_t stream, size_t bytes);
  void* allocate_at_last(CudaDevices::Device& own, DeviceMemory& memory, cudaStream_t stream,
                         size_t bytes, PlacementHint hint);
  // Reports that a block was allocated, or, with negative `bytes`, freed.
  void tell_profiler(DeviceMemory& memory, void* address, int64_t bytes);
  // Has the calling thread watched, and gives chaos its chance to evict. For arenas that evict.
  static void prepare_to_allocate(torch_glue::Engine& engine);
  void restore_before_capture(DeviceIndex device);

  const Settings settings_;
  const c10::DeleterFnPtr native_deleter_;
  CudaDevices devices_;
  std::atomic<bool> caching_{true};
  std::atomic<bool> use_on_oom_{false};
  ForeignUsers foreign_users_;
  CallSites call_sites_{&is_workspace, &may_keep_workspaces};
  OutOfMemoryObservers observers_;
};

}  // namespace tidepool::torch_cuda
