// StreamSequencer: makes work of one stream run after work of others, by the device's StreamOrder,
// and notes what has passed.
// Owns the clocks; not the order, and not the blocks whose uses it awaits. Every function requires
// the device's lock; those that take a DeviceLock& release it while the device is asked. See
// docs/life-of-an-allocation.md, "Streams".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/base/allocator_statistics.h"
#include "allocator/locks/calls_in_flight.h"
#include "allocator/streams/stream_clocks.h"
#include "allocator/streams/stream_order.h"

namespace tidepool {

class StreamSequencer {
 public:
  static constexpr size_t kStreams = 1 << 16;  // the most that a device may have

  StreamSequencer(CallsInFlight& calls, AllocatorStatistics& counts)
      : calls_(calls), counts_(counts) {}

  // Sets the order of the device's streams. Without one there is a single stream, whose work is
  // done when its caller goes on.
  void set_order(StreamOrder* order);
  bool has_order() const { return order_ != nullptr; }
  // Drops the order in a forked child, where the device does not exist.
  void forget_order() { order_ = nullptr; }

  // While suspended, for the capture of a graph, the device is not asked. Calls nest.
  void suspend() { ++suspended_; }
  void resume();
  bool is_suspended() const { return suspended_ > 0; }
  bool can_order() const { return order_ != nullptr && suspended_ == 0; }

  // Makes room for a stream's books. Aborts if there cannot be such a stream. Requires: the clocks
  // do not know it.
  void add_stream(StreamId stream);
  StreamClocks& clocks() { return clocks_; }
  const StreamClocks& clocks() const { return clocks_; }

  // Makes work that `stream` is given from now on run after `uses`, in whose place one use by
  // `stream` stands then. False, with the uses unchanged, if the device refuses; error() says why.
  bool order_after(DeviceLock& lock, StreamId stream, StreamUses& uses);
  // Has who waits for the stream's uses so far wait for `fence` only, and not for what the stream
  // is given before that wait. `fence` was recorded after the work of all these uses.
  void close_uses(StreamId stream, std::shared_ptr<Fence> fence);
  // Has the host wait until the uses have passed, and empties them. False as order_after().
  bool wait_for(DeviceLock& lock, StreamUses& uses);
  // Waits for all work on the device, so that all uses so far have passed. False as order_after().
  bool finish(DeviceLock& lock);
  // Waits for all work on the device at the end of an allocator, where a refusal does not matter.
  // Throws nothing.
  void finish_for_good();
  // Records fences for the uses, as far as the device allows, and notes which of all fences have
  // passed.
  void poll(DeviceLock& lock, const StreamUses& to_record);
  // Whether any use has passed since the last call.
  bool take_passed() { return std::exchange(something_passed_, false); }

  // What the device said when it last refused.
  const std::string& error() const { return error_; }

 private:
  // Of one stream so many fences are kept at most that nobody has waited for: each search for one
  // looks at all.
  static constexpr size_t kMostFences = 256;

  using Fences = std::vector<StreamClocks::Milestone>;

  // Returns a fence for each use that has not passed, recorded now if there is none. If a stream
  // refuses to record, all work on the device is waited for, and no fence is needed. nullopt if the
  // device refuses that, too.
  std::optional<Fences> fences_for(DeviceLock& lock, const StreamUses& uses);
  void note_passed(StreamUse use);

  CallsInFlight& calls_;
  AllocatorStatistics& counts_;
  StreamClocks clocks_;
  StreamOrder* order_ = nullptr;
  size_t suspended_ = 0;
  bool something_passed_ = false;
  std::string error_;
};

}  // namespace tidepool
