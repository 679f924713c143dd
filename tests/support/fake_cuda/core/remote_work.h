// Remote work: operations of streams that end when other processes have done their part of them.
// The device does all other work when it is enqueued. Somebody else does this, as it can be done;
// until then a stream or event that comes after it is not ready, and whoever enqueues an operation
// behind it, or waits for it, waits in truth.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/support/fake_cuda/core/vector_clock.h"

namespace tidepool::fake_cuda {

// Thread safe.
class RemoteWork {
 public:
  enum class State : uint8_t { kUnderway, kFailed, kDone };

  State state() const { return state_.load(std::memory_order_acquire); }
  // It has ended so. What has failed may be called done later, by whoever gives it up.
  void end(State state);
  // Returns how it has ended, once it has.
  State wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  std::atomic<State> state_ = State::kUnderway;
};

using Works = std::vector<std::shared_ptr<RemoteWork>>;

// Thrown by what has to wait for remote work, before it has changed anything: it is tried again
// when the work is done.
struct Unfinished {
  Works works;
};

// The remote work of a machine's streams. Not thread safe: the machine's lock is held.
class RemoteWorks {
 public:
  void add(std::shared_ptr<RemoteWork> work, StreamId stream, Tick tick);
  bool is_empty() const { return entries_.empty(); }
  // What is not done, and comes before whatever has this clock.
  Works before(const VectorClock& clock);

 private:
  struct Entry {
    std::shared_ptr<RemoteWork> work;
    StreamId stream;
    Tick tick;
  };
  std::vector<Entry> entries_;
};

}  // namespace tidepool::fake_cuda
