#include "tests/support/simulated_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tidepool::test {

class SimulatedStreams::SimulatedFence final : public Fence {
 public:
  SimulatedFence(SimulatedStreams& streams, Clock clock)
      : streams_(streams), clock_(std::move(clock)) {}

  bool passed() override {
    std::lock_guard lock(streams_.mutex_);
    ++streams_.queries;
    if (!streams_.has_run(clock_)) return false;
    join(streams_.host_, clock_);
    return true;
  }
  void wait() override {
    std::lock_guard lock(streams_.mutex_);
    streams_.throw_if_failing("wait for a fence");
    ++streams_.host_waits;
    for (size_t s = 0; s < clock_.size(); ++s) {
      streams_.queues_[s].done = std::max(streams_.queues_[s].done, clock_[s]);
    }
    join(streams_.host_, clock_);
  }
  const Clock& clock() const { return clock_; }

 private:
  SimulatedStreams& streams_;
  const Clock clock_;
};

SimulatedStreams::SimulatedStreams(size_t streams) : queues_(streams), host_(streams, 0) {
  for (Queue& queue : queues_) queue.issued.assign(streams, 0);
}

void SimulatedStreams::throw_if_failing(const char* call) {
  if (fail_in_ == 0) return;
  if (fail_in_ > 1) {
    --fail_in_;
    return;
  }
  if (--fail_times_ == 0) fail_in_ = 0;
  failed_ = true;
  throw DeviceError(std::string("simulated failure: ") + call);
}

void SimulatedStreams::join(Clock& clock, const Clock& other) {
  for (size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], other[s]);
}

bool SimulatedStreams::has_run(const Clock& clock) const {
  for (size_t s = 0; s < clock.size(); ++s) {
    if (queues_[s].done < clock[s]) return false;
  }
  return true;
}

std::shared_ptr<Fence> SimulatedStreams::record(StreamId stream) {
  std::shared_ptr<Fence> fence;
  {
    std::lock_guard lock(mutex_);
    throw_if_failing("record");
    const Queue& queue = queues_.at(static_cast<size_t>(stream));
    if (queue.gone) throw DeviceError("no such stream");
    ++records;
    fence = std::make_shared<SimulatedFence>(*this, queue.issued);
  }
  if (after_record) std::exchange(after_record, nullptr)();
  return fence;
}

void SimulatedStreams::wait(StreamId stream, Fence& fence) {
  std::lock_guard lock(mutex_);
  throw_if_failing("wait of a stream");
  ++waits;
  join(queues_.at(static_cast<size_t>(stream)).issued, static_cast<SimulatedFence&>(fence).clock());
}

void SimulatedStreams::finish() {
  std::lock_guard lock(mutex_);
  throw_if_failing("finish");
  ++finishes;
  for (size_t s = 0; s < queues_.size(); ++s) {
    queues_[s].done = queues_[s].work.size();
    host_[s] = queues_[s].done;
  }
}

void SimulatedStreams::forget(const Clock& clock, uintptr_t begin, uintptr_t end) {
  std::vector<Use> kept;
  for (const Use& use : uses_) {
    if (use.end <= begin || end <= use.begin || use.time > clock[use.stream]) {
      kept.push_back(use);
      continue;
    }
    if (use.begin < begin) kept.push_back({use.begin, begin, use.stream, use.time});
    if (end < use.end) kept.push_back({end, use.end, use.stream, use.time});
  }
  uses_ = std::move(kept);
}

std::string SimulatedStreams::first_use_outside(const Clock& clock, uintptr_t begin, uintptr_t end,
                                                const std::string& by) const {
  for (const Use& use : uses_) {
    if (use.end <= begin || end <= use.begin || use.time <= clock[use.stream]) continue;
    return fmt::format("{:#x}, {} bytes: stream {} may still use it (work {}) when {}", begin,
                       end - begin, use.stream, use.time, by);
  }
  return {};
}

std::string SimulatedStreams::launch(StreamId stream, Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto s = static_cast<size_t>(stream);
  Queue& queue = queues_.at(s);
  join(queue.issued, host_);
  std::string race = first_use_outside(queue.issued, address.value, address.value + bytes,
                                       fmt::format("stream {} uses it", s));
  queue.issued[s] = queue.work.size() + 1;
  queue.work.push_back(queue.issued);
  // What is before this use is before whatever comes after it.
  forget(queue.issued, address.value, address.value + bytes);
  uses_.push_back({address.value, address.value + bytes, s, queue.issued[s]});
  return race;
}

std::string SimulatedStreams::take_away(Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  std::string race =
      first_use_outside(host_, address.value, address.value + bytes, "its pages are taken away");
  forget(host_, address.value, address.value + bytes);
  return race;
}

bool SimulatedStreams::progress(StreamId stream) {
  std::lock_guard lock(mutex_);
  const auto s = static_cast<size_t>(stream);
  Queue& queue = queues_.at(s);
  if (queue.done == queue.work.size()) return false;
  Clock before = queue.work[queue.done];
  before[s] = queue.done;
  if (!has_run(before)) return false;
  ++queue.done;
  return true;
}

void SimulatedStreams::progress_all() {
  for (bool any = true; any;) {
    any = false;
    for (size_t s = 0; s < queues_.size(); ++s) any |= progress(static_cast<StreamId>(s));
  }
}

}  // namespace tidepool::test
