// CopyEngine: the interface to copies between a device and page-locked host memory that run beside
// other work, on two streams of their own, one for each direction, and to such memory.
// Implementations are thread safe. Nothing here waits for the device, unless it says so. What is
// enqueued in one direction runs in order; only order_after() and wait() order it with other work.
#pragma once

#include <cstddef>
#include <memory>

#include "allocator/base/stream_id.h"
#include "allocator/streams/fence.h"

namespace tidepool {

enum class CopyDirection : uint8_t { kOut, kIn };  // to the host, to the device

class CopyEngine {
 public:
  virtual ~CopyEngine() = default;

  // Page-locked memory; nullptr: there is no more to be had. It may wait for the device.
  virtual void* allocate_host(size_t bytes) = 0;
  virtual void free_host(void* address) = 0;

  // The stream on which copies in the direction run. Throws: DeviceError.
  virtual StreamId stream(CopyDirection direction) = 0;
  // Has copies that are enqueued from now on run after all that `stream` has been given, or after
  // the fence, which came from record(). Throws: DeviceError.
  virtual void order_after(CopyDirection direction, StreamId stream) = 0;
  virtual void wait(CopyDirection direction, Fence& fence) = 0;
  // Enqueues a copy. The memory on the host has to stay until it has run. Throws: DeviceError; then
  // nothing is copied.
  virtual void copy(CopyDirection direction, void* to, const void* from, size_t bytes) = 0;
  // A fence that passes once all copies in the direction so far have run. Throws: DeviceError.
  virtual std::shared_ptr<Fence> record(CopyDirection direction) = 0;

  // How long a byte takes in the direction, in nanoseconds, found by copies of `bytes` that are
  // waited for; so much memory of the device and of the host is taken for a moment. A guess where
  // it cannot be had. Throws: DeviceError.
  virtual double measure_ns_per_byte(CopyDirection direction, size_t bytes) = 0;
};

}  // namespace tidepool
