// StreamOrder: the seam to the order in which a device runs work: streams run theirs one after
// another, and a fence is the only thing that orders one stream after another.
// Implementations are thread safe. The allocator calls them without its lock.
#pragma once

#include <memory>

#include "allocator/base/stream_id.h"
#include "allocator/streams/fence.h"

namespace tidepool {

class StreamOrder {
 public:
  virtual ~StreamOrder() = default;

  // A fence that passes once all that was enqueued on `stream` so far has run. Throws: DeviceError.
  virtual std::shared_ptr<Fence> record(StreamId stream) = 0;

  // What is enqueued on `stream` from now on runs after `fence`, which came from record(). Does not
  // block the host. Throws: DeviceError; then nothing has changed.
  virtual void wait(StreamId stream, Fence& fence) = 0;

  // Waits until all work on the device has run, also of streams that no longer exist. The last
  // resort where one refuses to record. Throws: DeviceError.
  virtual void finish() = 0;
};

}  // namespace tidepool
