// CudaDevices: the devices that CudaAllocator serves. It owns, for each device, our memory, which
// is made at the device's first request, the pools of PyTorch's own allocator, and the limits of
// both; and it remembers what the job has asked of all devices (history, trackers, access from
// peers), for those whose memory is made later.
// CudaAllocator owns it, and it is never destroyed. Thread safe.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "bindings/torch_cuda/memory/device_memory.h"
#include "bindings/torch_cuda/memory/memory_history.h"
#include "bindings/torch_cuda/memory/native_pools.h"
#include "bindings/torch_cuda/settings.h"
#include "cuda/driver/driver_functions.h"

namespace tidepool::torch_cuda {

class CudaAllocator;
using c10::DeviceIndex;
using c10::cuda::CUDACachingAllocator::SnapshotInfo;

class CudaDevices {
 public:
  struct Device {
    std::mutex mutex;                            // held while `memory` is made, or limits change
    std::atomic<DeviceMemory*> memory{nullptr};  // null before its first allocation
    std::unique_ptr<NativePools> pools;
    size_t budget_bytes = 0;
    double fraction = 1.0;         // of the device, which the job has set
    size_t most_bytes = SIZE_MAX;  // what set_limit() was last given
    size_t device_bytes = 0;
    size_t outside_at_start = 0;  // outside_bytes() when the memory was made
    std::atomic<int> captures{0};
  };

  // `allocator`: the owner. `native`: PyTorch's own allocator.
  CudaDevices(CudaAllocator& allocator, CUDAAllocator& native, const Settings& settings)
      : allocator_(allocator), native_(native), settings_(settings) {}

  // Prepares so many devices, and touches none. Further calls do nothing.
  void set_up(int device_count);
  // Throws: c10::Error if there is no such device.
  Device& at(DeviceIndex device);
  // The device's memory, which is made now if there is none. Throws: DeviceError.
  DeviceMemory& memory(DeviceIndex device);
  // The memory of the device whose arena has the address, or null.
  DeviceMemory* memory_of(const void* address) const;
  // Calls visit(Device&, DeviceMemory&) for each device that has memory.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (int device = 0; device < device_count_; ++device) {
      Device& each = devices_[static_cast<size_t>(device)];
      if (DeviceMemory* memory = each.memory.load()) visit(each, *memory);
    }
  }

  // The bytes of the device that neither PyTorch's allocator nor the arena uses, but others: the
  // CUDA context, code, libraries' own memory, other processes. 0 if the device does not say.
  size_t outside_bytes(DeviceIndex device);

  // Holds at most `bytes` of each device that has memory, or its budget if that is less. False, and
  // the limits are what they were, if what cannot be evicted takes more. Throws:
  // std::runtime_error if there is nothing to limit, or a graph is being captured.
  bool set_limit(size_t bytes);

  // Statistics as JSON, keyed "cuda:0", ...: of devices that have allocated.
  std::string statistics_json();

  // The job gets no more than this fraction of the device. Throws: c10::Error for what is none.
  void set_fraction(DeviceIndex device, double fraction);
  // Adds what there is of ours to a snapshot, with the histories if they are asked for.
  void add_to(SnapshotInfo& all, bool traces);

  // A graph's capture begins or ends: meanwhile nothing is evicted, and no stream waits for
  // another.
  void begin_capture(DeviceIndex device);
  void end_capture(DeviceIndex device);

  struct Peers {
    DeviceIndex owner;     // the device that has the memory
    DeviceIndex accessor;  // the device that may access it
  };
  // The job asks these of all devices, also of those whose memory is made later. add_peer()
  // concerns all memory of the owner, also what it allocates later.
  void record_history(const MemoryHistory::Options& options);
  void add_tracker(const AllocatorTraceTracker& tracker);
  void add_peer(const Peers& peers);

 private:
  static constexpr size_t kDevices = 64;  // the most devices that PyTorch has

  DeviceMemory& make_memory(Device& device, DeviceIndex index);
  void apply_requests(DeviceMemory& memory);

  CudaAllocator& allocator_;
  CUDAAllocator& native_;
  const Settings& settings_;
  std::array<Device, kDevices> devices_;
  std::atomic<int> device_count_{0};

  std::mutex mutex_;  // guards what follows
  device::DriverFunctions functions_;
  std::vector<AllocatorTraceTracker> trackers_;
  std::vector<Peers> peers_;
  MemoryHistory::Options history_;
};

}  // namespace tidepool::torch_cuda
