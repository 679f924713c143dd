#include "allocator/streams/stream_sequencer.h"

#include <utility>

#include "allocator/base/check.h"
#include "allocator/base/device_error.h"

namespace tidepool {

void StreamSequencer::set_order(StreamOrder* order) {
  TIDEPOOL_CHECK(order_ == nullptr && order != nullptr, "set_stream_order was called before, %p",
                 static_cast<void*>(order));
  order_ = order;
}

void StreamSequencer::resume() {
  TIDEPOOL_CHECK(suspended_ > 0, "resumed %zu times too often", size_t{1});
  --suspended_;
}

void StreamSequencer::add_stream(StreamId stream) {
  TIDEPOOL_CHECK(order_ != nullptr && static_cast<size_t>(stream) < kStreams,
                 "stream %u: there is %s", static_cast<unsigned>(stream),
                 order_ == nullptr ? "one stream, without an order" : "a limit of 65536 streams");
  clocks_.add_stream(stream);
}

std::optional<StreamSequencer::Fences> StreamSequencer::fences_for(DeviceLock& lock,
                                                                   const StreamUses& uses) {
  Fences found;
  for (StreamUse use : uses) {
    if (clocks_.passed(use)) continue;
    found.push_back(clocks_.milestone_for(use));
    // What is freed from here on, while the lock is released, belongs to the next epoch.
    if (found.back().fence == nullptr) found.back().use.epoch = clocks_.close(use.stream);
  }
  std::vector<size_t> recorded;
  bool refused = false;
  {
    Unlocked unlocked(lock);
    try {
      for (size_t i = 0; i < found.size(); ++i) {
        if (found[i].fence != nullptr) continue;
        found[i].fence = order_->record(found[i].use.stream);
        recorded.push_back(i);
      }
    } catch (const DeviceError&) {
      refused = true;  // an epoch left without a fence is covered by a later one
    }
  }
  for (size_t i : recorded) clocks_.add_fence(found[i].use, found[i].fence);
  if (!refused) return found;
  // The stream may be gone while its memory is still here.
  if (!finish(lock)) return std::nullopt;
  found.clear();
  return found;
}

void StreamSequencer::note_passed(StreamUse use) {
  clocks_.note_passed(use);
  something_passed_ = true;
}

bool StreamSequencer::finish(DeviceLock& lock) {
  const std::vector<StreamUse> closed = clocks_.close_all();
  std::string error;
  {
    Unlocked unlocked(lock);
    try {
      order_->finish();
    } catch (const DeviceError& refused) {
      error = refused.what();
    }
  }
  if (!error.empty()) {
    error_ = error;
    return false;
  }
  for (StreamUse use : closed) note_passed(use);
  return true;
}

void StreamSequencer::finish_for_good() {
  try {
    if (order_ != nullptr) order_->finish();
  } catch (const DeviceError&) {
    // A device that is gone has nothing left to run.
  }
}

bool StreamSequencer::order_after(DeviceLock& lock, StreamId stream, StreamUses& uses) {
  StreamUses left;
  bool idle = true;
  for (StreamUse use : uses) {
    idle = idle && clocks_.passed(use);
    if (!clocks_.ordered(stream, use)) left.push_back(use);
  }
  if (!left.empty()) {
    CallsInFlight::Sequence sequence(calls_);
    auto fences = fences_for(lock, left);
    if (!fences) return false;
    size_t waited = 0;
    std::string error;
    {
      Unlocked unlocked(lock);
      try {
        for (; waited < fences->size(); ++waited) order_->wait(stream, *(*fences)[waited].fence);
      } catch (const DeviceError& refused) {
        error = refused.what();
      }
    }
    for (size_t i = 0; i < waited; ++i) clocks_.note_waited(stream, (*fences)[i].use);
    counts_.stream_waits += waited;
    if (waited < fences->size()) {
      error_ = error;
      return false;
    }
  }
  uses.clear();
  if (!idle) uses.push_back({stream, clocks_.open(stream)});
  return true;
}

void StreamSequencer::close_uses(StreamId stream, std::shared_ptr<Fence> fence) {
  if (!can_order() || !clocks_.knows(stream) || clocks_.milestones(stream) >= kMostFences) return;
  const Epoch closed = clocks_.close(stream);
  clocks_.add_fence({stream, closed}, std::move(fence));
}

bool StreamSequencer::wait_for(DeviceLock& lock, StreamUses& uses) {
  if (order_ != nullptr && !uses.empty()) {
    CallsInFlight::Sequence sequence(calls_);
    auto fences = fences_for(lock, uses);
    if (!fences) return false;
    std::string error;
    {
      Unlocked unlocked(lock);
      try {
        for (const StreamClocks::Milestone& milestone : *fences) milestone.fence->wait();
      } catch (const DeviceError& refused) {
        error = refused.what();
      }
    }
    if (!error.empty()) {
      error_ = error;
      return false;
    }
    for (const StreamClocks::Milestone& milestone : *fences) note_passed(milestone.use);
  }
  uses.clear();
  return true;
}

void StreamSequencer::poll(DeviceLock& lock, const StreamUses& to_record) {
  CallsInFlight::Sequence sequence(calls_);
  if (!to_record.empty()) (void)fences_for(lock, to_record);  // a refusal is tried again next time
  Fences fences = clocks_.milestones();
  if (fences.empty()) return;
  std::vector<StreamUse> passed;
  {
    Unlocked unlocked(lock);
    for (size_t i = 0; i < fences.size(); ++i) {
      const StreamId stream = fences[i].use.stream;
      if (fences[i].fence->passed()) {
        passed.push_back(fences[i].use);
      } else {  // nor have the later ones of this stream; those of others may have
        while (i + 1 < fences.size() && fences[i + 1].use.stream == stream) ++i;
      }
    }
  }
  for (StreamUse use : passed) note_passed(use);
}

}  // namespace tidepool
