// StreamSequencer: makes work of one stream run after work of others, through the device's
// StreamOrder, and knows what has passed.
// Owns the clocks; not the order, and not the blocks whose uses it awaits. Every function requires
// the device's lock; those that take a DeviceLock& release it while the device is asked.
// See docs/life-of-an-allocation.md, "Streams".
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/base/allocator_statistics.h"
#include "allocator/base/calls_in_flight.h"
#include "allocator/streams/stream_clocks.h"
#include "allocator/streams/stream_order.h"

namespace tidepool {

class StreamSequencer {
 public:
  static constexpr size_t kStreams = 1 << 16;  // at most

  StreamSequencer(CallsInFlight& calls, AllocatorStatistics& counts)
      : calls_(calls), counts_(counts) {}

  // Without an order there is one stream, whose work is done when its caller goes on.
  void set_order(StreamOrder* order);
  bool has_order() const { return order_ != nullptr; }
  // In a forked child, where the device does not exist.
  void forget_order() { order_ = nullptr; }

  // While suspended the device is not asked (a graph is captured). Counted.
  void suspend() { ++suspended_; }
  void resume();
  bool is_suspended() const { return suspended_ > 0; }
  bool can_order() const { return order_ != nullptr && suspended_ == 0; }

  // Makes room for a stream's books. Requires: the clocks do not know it; aborts where there cannot
  // be such a stream.
  void add_stream(StreamId stream);
  StreamClocks& clocks() { return clocks_; }
  const StreamClocks& clocks() const { return clocks_; }

  // Work that `stream` is given from now on runs after the uses, which are then one of its own.
  // False, and the uses stay, if the device refuses: error() says why.
  bool order_after(DeviceLock& lock, StreamId stream, StreamUses& uses);
  // The host waits until the uses have passed; none are left then. False as above.
  bool wait_for(DeviceLock& lock, StreamUses& uses);
  // Waits for all work on the device: all uses so far have passed then. False as above.
  bool finish(DeviceLock& lock);
  // The same at the end of an allocator, where a refusal does not matter. Throws nothing.
  void finish_for_good();
  // Records fences for the uses, as far as the device allows, and notes which of all fences have
  // passed.
  void poll(DeviceLock& lock, const StreamUses& to_record);
  // Whether a use has passed since this was last asked.
  bool take_passed() { return std::exchange(something_passed_, false); }

  // What the device said when it last refused.
  const std::string& error() const { return error_; }

 private:
  using Fences = std::vector<StreamClocks::Milestone>;

  // A fence for each use that has not passed, recorded where there is none. Where a stream does not
  // record, all work on the device is waited for, and no fence is needed. Nothing if the device
  // refuses that, too.
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
