// DeviceArena: puts together one device's driver, address space, streams and budgeted allocator,
// for bindings that serve a framework's CUDA allocations.
// Owns all of them. Thread safe. Sizes are in bytes; streams are the driver's, of this device.
#pragma once

#include <memory>
#include <string>

#include "allocator/budgeted_allocator.h"
#include "allocator/streams/copy_engine.h"
#include "cuda/driver/driver.h"
#include "cuda/streams/event_order.h"
#include "cuda/streams/events.h"
#include "cuda/streams/stream_table.h"

namespace tidepool::device {

class DeviceArena {
 public:
  static constexpr size_t kAlignment =
      512;  // that of PyTorch's own allocator, which kernels expect

  // `config.alignment` does not matter. `observer`, if any, must outlive the arena.
  // Throws: DeviceError; std::invalid_argument.
  DeviceArena(const DriverFunctions& functions, int ordinal, AllocatorConfig config,
              AllocatorObserver* observer = nullptr);
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  // Throws: OutOfMemory; DeviceError.
  void* allocate(size_t bytes, driver::Stream stream,
                 PlacementHint hint = PlacementHint::kTransient) {
    return allocator_.allocate(bytes, hint, streams_.id_of(stream));
  }
  void free(void* address) { allocator_.free(address); }
  // Aborts unless the block was asked for with exactly `bytes` on `stream`.
  void free_checked(void* address, size_t bytes, driver::Stream stream) {
    allocator_.free_checked(address, bytes, streams_.id_of(stream));
  }
  void record_stream(void* address, driver::Stream user) {
    allocator_.record_stream(address, streams_.id_of(user));
  }

  bool contains(const void* address) const { return allocator_.contains(address); }
  // Whether an allocated block starts at the address.
  bool owns_block(const void* address) const {
    return contains(address) && allocator_.misuse(address).empty();
  }
  // The size of the allocated block that starts at the address.
  size_t block_bytes(const void* address);

  // Copies to and from the host, on streams of their own. The arena must outlive it.
  std::unique_ptr<CopyEngine> make_copy_engine();

  // Lets work on another device access this one's memory, where the driver can map it.
  void add_peer(int ordinal);
  // Waits for all work on the device. Throws: DeviceError.
  void synchronize();

  StreamId id_of(driver::Stream stream) { return streams_.id_of(stream); }
  driver::Stream stream_of(StreamId stream) const { return streams_.stream_of(stream); }
  DeviceMutex& mutex() { return mutex_; }
  BudgetedAllocator& allocator() { return allocator_; }
  const BudgetedAllocator& allocator() const { return allocator_; }

 private:
  Driver driver_;
  std::unique_ptr<AddressSpace> space_;
  StreamTable streams_;
  std::shared_ptr<EventPool> events_;
  EventOrder order_;
  DeviceMutex mutex_;
  BudgetedAllocator allocator_;
};

}  // namespace tidepool::device
