// StreamOrder: the interface to the order in which a device runs work. Each stream runs its work in
// order, and only fences order the work of different streams.
// Implementations are thread safe. The allocator calls them without its lock.
#pragma once

#include <memory>

#include "allocator/base/stream_id.h"
#include "allocator/streams/fence.h"

namespace tidepool {

class StreamOrder {
 public:
  virtual ~StreamOrder() = default;

  // Returns a fence that passes once all that was enqueued on `stream` so far has run. Throws:
  // DeviceError.
  virtual std::shared_ptr<Fence> record(StreamId stream) = 0;

  // Makes what is enqueued on `stream` from now on run after `fence`, which came from record().
  // Does not block the host. Throws: DeviceError; then nothing has changed.
  virtual void wait(StreamId stream, Fence& fence) = 0;

  // Waits until all work on the device has run, also that of streams that no longer exist; the last
  // resort where a stream refuses to record. Throws: DeviceError.
  virtual void finish() = 0;
};

}  // namespace tidepool
