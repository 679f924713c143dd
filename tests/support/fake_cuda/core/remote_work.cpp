#include "tests/support/fake_cuda/core/remote_work.h"

#include <utility>

namespace tidepool::fake_cuda {

void RemoteWork::end(State state) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kDone) return;
    state_ = state;
  }
  ended_.notify_all();
}

RemoteWork::State RemoteWork::wait() const {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return state_ != State::kUnderway; });
  return state_;
}

void RemoteWorks::add(std::shared_ptr<RemoteWork> work, StreamId stream, Tick tick) {
  entries_.push_back({std::move(work), stream, tick});
}

Works RemoteWorks::before(const VectorClock& clock) {
  std::erase_if(entries_,
                [](const Entry& entry) { return entry.work->state() == RemoteWork::State::kDone; });
  Works found;
  for (const Entry& entry : entries_) {
    if (clock.of(entry.stream) >= entry.tick) found.push_back(entry.work);
  }
  return found;
}

}  // namespace tidepool::fake_cuda
