// PluggableAllocator: the arenas of this process's CUDA devices, behind plain functions: what
// bindings/pluggable/api.h exports. Knows no framework.
// Made at the first call, never destroyed: storages outlive static destructors. Thread safe.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "allocator/locks/mutex.h"
#include "bindings/pluggable/graph_pools.h"
#include "cuda/device_arena.h"
#include "cuda/driver/driver_library.h"

namespace tidepool::pluggable {

using device::driver::Stream;

class PluggableAllocator {
 public:
  static PluggableAllocator& instance();

  // For devices that have not allocated yet; without it TIDEPOOL_BUDGET counts, without that all
  // of a device's memory. Throws: std::invalid_argument if it is no size.
  void set_budget(const std::string& text);

  // Throws: OutOfMemory; DeviceError; std::invalid_argument if the budget is no size, or there is
  // no such device.
  void* allocate(size_t bytes, int device, Stream stream);
  // Aborts, naming the address, unless the block was asked for like this and not freed since.
  void free(void* address, size_t bytes, int device, Stream stream);
  // Aborts unless a block starts there.
  void record_stream(void* address, Stream user);
  // The bytes of the block that starts there, or 0.
  size_t block_bytes(const void* address);

  // Gives free memory back to the devices.
  void reset();
  // At most this share of the device's memory, and at most the budget.
  void set_memory_fraction(double fraction, int device);
  GraphPools& pools(int device) { return this->device(device).pools; }
  // Throws: std::invalid_argument if there is no statistic of this name.
  size_t statistic(int device, const std::string& name);

 private:
  static constexpr size_t kDevices = 64;

  struct Device {
    Device(const device::DriverFunctions& functions, int ordinal, const AllocatorConfig& config)
        : arena(functions, ordinal, config), pools(arena) {}
    device::DeviceArena arena;
    GraphPools pools;
  };

  Device& device(int ordinal);
  Device* device_of(const void* address);
  [[gnu::noinline]] Device& make_device(int ordinal);

  std::array<std::atomic<Device*>, kDevices> devices_{};
  Mutex mutex_;
  std::string budget_ ABSL_GUARDED_BY(mutex_);  // empty: as set_budget() says
  std::array<std::optional<double>, kDevices> fractions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::pluggable
