// VectorClock: how far each stream has come in somebody's knowledge, by the ticks of that stream.
// A tick is one operation, or one event's record, enqueued on a stream; the first is 1.
// Not thread safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidepool::fake_cuda {

using Tick = uint64_t;

// Streams in the order of their creation; never used again.
enum class StreamId : uint32_t {};

class VectorClock {
 public:
  Tick of(StreamId stream) const {
    const size_t index = static_cast<size_t>(stream);
    return index < ticks_.size() ? ticks_[index] : 0;
  }

  void raise(StreamId stream, Tick tick) {
    const size_t index = static_cast<size_t>(stream);
    if (index >= ticks_.size()) ticks_.resize(index + 1);
    ticks_[index] = std::max(ticks_[index], tick);
  }

  // Returns whether that taught it something.
  bool join(const VectorClock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    bool changed = false;
    for (size_t i = 0; i < other.ticks_.size(); ++i) {
      if (other.ticks_[i] <= ticks_[i]) continue;
      ticks_[i] = other.ticks_[i];
      changed = true;
    }
    return changed;
  }

  bool covers(const VectorClock& other) const {
    for (size_t i = 0; i < other.ticks_.size(); ++i) {
      if (other.ticks_[i] > of(static_cast<StreamId>(i))) return false;
    }
    return true;
  }

 private:
  std::vector<Tick> ticks_;
};

}  // namespace tidepool::fake_cuda
