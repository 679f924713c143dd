// ReplayStreamOrder: the order on streams of hidden work: replays and copies that use the bytes of
// values, which the job does not know of, so that it cannot have made its other streams wait for
// them. What the job itself has enqueued needs no such care: a replay reads what its operator has
// read, and whoever wants the result comes, by the job's own order, after that operator.
// A value remembers its last hidden use; the next one, and every use by the job, comes after it on
// whatever stream, so one is enough. Blocks remember all streams that use them, for their end.
// Owns nothing. Not thread safe: the device's lock is held.
#pragma once

#include "allocator/budgeted_allocator.h"
#include "remat/lineage/backend.h"
#include "remat/lineage/lineage.h"

namespace tidepool::remat {

class ReplayStreamOrder {
 public:
  ReplayStreamOrder(BudgetedAllocator& allocator, Backend& backend)
      : allocator_(allocator), backend_(backend), has_streams_(backend.has_streams()) {}

  // False: all work is done in the order in which it is given, and nothing here does anything.
  bool has_streams() const { return has_streams_; }
  // The stream that work of this thread goes to.
  StreamId stream() const { return has_streams_ ? backend_.current_stream() : StreamId::kDefault; }

  // Work that `stream` gets from now on may use the value's bytes, which stay where they are until
  // it has got it. May release the lock. Requires: available. Throws: DeviceError.
  void before_use(Value& value, StreamId stream, DeviceLock& lock) {
    if (value.hidden.stream != stream && value.hidden.epoch > 0) [[unlikely]] {
      allocator_.order_after(stream, value.hidden, lock);
    }
    use_block(value.address(), stream);
  }
  // `stream` has got work of ours that uses them.
  void after_use(Value& value, StreamId stream) { value.hidden = allocator_.use_so_far(stream); }
  // The block is not handed out again before what `stream` has been given has run.
  void use_block(void* address, StreamId stream) {
    if (stream != StreamId::kDefault) other_streams_ = true;
    if (!other_streams_) [[likely]] return;
    if (allocator_.stream(address) != stream) allocator_.record_stream_locked(address, stream);
  }

 private:
  BudgetedAllocator& allocator_;
  Backend& backend_;
  const bool has_streams_;
  bool other_streams_ = false;  // work has gone to another than the default stream
};

}  // namespace tidepool::remat
