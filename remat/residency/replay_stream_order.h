// ReplayStreamOrder: orders hidden work on streams. Hidden work is replays and copies: they use the
// bytes of values without the job's knowledge, so that the job cannot have made its other streams
// wait for them. Work that the job itself has enqueued needs no such care: a replay reads what its
// operator has read, and whatever uses the result comes, by the job's own order, after that
// operator. A value remembers only its last hidden use. That is enough, because the next hidden
// use, and every use by the job, waits for it on whatever stream. A block remembers all streams
// that have used it, for the time when it is freed.
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

  // False: all work is done in the order in which it is given, so that nothing has to be ordered.
  bool has_streams() const { return has_streams_; }
  // The stream to which this thread's work goes.
  StreamId stream() const { return has_streams_ ? backend_.current_stream() : StreamId::kDefault; }

  // Makes work that `stream` gets from now on run after the value's hidden uses, so that it may use
  // the bytes: also those that another thread begins while the lock is released for this. The
  // caller sees to it that value and bytes stay until it has enqueued that work. Requires: the
  // value is available. Throws: DeviceError.
  void before_use(Value& value, StreamId stream, DeviceLock& lock) {
    StreamUse ordered;
    while (comes_after(stream, value.hidden_use, ordered)) [[unlikely]]
      allocator_.order_after(stream, ordered = value.hidden_use, lock);
    use_block(value.address(), stream);
  }
  // The same for the contents of a storage, which another thread may replace or free meanwhile:
  // then those that are there in the end are meant, or none.
  void before_use(Storage& storage, StreamId stream, DeviceLock& lock) {
    StreamUse ordered;
    while (!storage.dead && comes_after(stream, storage.current->hidden_use, ordered)) [[unlikely]]
      allocator_.order_after(stream, ordered = storage.current->hidden_use, lock);
    if (!storage.dead) use_block(storage.current->address(), stream);
  }
  // For a restoration that no operator asks for: the job need not have ordered this thread's stream
  // after those which the values were made on. Makes its work from now on run after all work so
  // far. May release the lock. Throws: DeviceError.
  void before_unasked_work(DeviceLock& lock) {
    if (has_streams_) allocator_.order_after_all(stream(), lock);
  }
  // For a reader that is not seen: it may read the value on any stream, also on one of another
  // library's, and the job has ordered that after the operators it knows of only. Has the host wait
  // for the value's hidden uses. May release the lock. Throws: DeviceError.
  void before_unseen_use(const Value& value, DeviceLock& lock) {
    if (value.hidden_use.epoch > 0) [[unlikely]]
      allocator_.wait_for(value.hidden_use, lock);
  }
  // Notes that `stream` has got hidden work that makes the value's bytes, which nobody uses yet.
  void after_making(Value& value, StreamId stream) {
    value.hidden_use = allocator_.use_so_far(stream);
  }
  // Notes that `stream` has got hidden work that uses the value's bytes. As the lock was released
  // for that, another thread may have had them used on another stream, too: what comes next on this
  // one comes after that as well. Otherwise as before_use().
  void after_use(Value& value, StreamId stream, DeviceLock& lock) {
    before_use(value, stream, lock);
    value.hidden_use = allocator_.use_so_far(stream);
  }
  void after_use(Storage& storage, StreamId stream, DeviceLock& lock) {
    before_use(storage, stream, lock);
    if (!storage.dead) storage.current->hidden_use = allocator_.use_so_far(stream);
  }
  // Notes that work on `stream` uses the block, which is not handed out again before that has run.
  void use_block(void* address, StreamId stream) {
    if (allocator_.stream(address) != stream) allocator_.record_stream_locked(address, stream);
  }

 private:
  // Whether work on the stream has to be ordered after a hidden use, given the last one after which
  // it was.
  static bool comes_after(StreamId stream, StreamUse use, StreamUse ordered) {
    return use.epoch > 0 && use.stream != stream && use != ordered;
  }

  BudgetedAllocator& allocator_;
  Backend& backend_;
  const bool has_streams_;
};

}  // namespace tidepool::remat
