#include "allocator/streams/stream_clocks.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace tidepool {

void add_use(StreamUses& uses, StreamUse use) {
  auto at = std::lower_bound(uses.begin(), uses.end(), use,
                             [](StreamUse a, StreamUse b) { return a.stream < b.stream; });
  if (at != uses.end() && at->stream == use.stream) {
    at->epoch = std::max(at->epoch, use.epoch);
  } else {
    uses.insert(at, use);
  }
}

void add_uses(StreamUses& uses, std::span<const StreamUse> more) {
  for (StreamUse use : more) add_use(uses, use);
}

void StreamClocks::add_stream(StreamId stream) {
  if (!knows(stream)) others_.resize(index(stream));
}

bool StreamClocks::ordered(StreamId waiter, StreamUse use) const {
  if (waiter == use.stream || passed(use)) return true;
  auto found = waited_.find(pair_of(waiter, use.stream));
  return found != waited_.end() && found->second >= use.epoch;
}

void StreamClocks::add_fence(StreamUse use, std::shared_ptr<Fence> fence) {
  Stream& stream = at(use.stream);
  TIDEPOOL_CHECK(use.epoch < stream.open, "fence of epoch %llu, open is %llu",
                 static_cast<unsigned long long>(use.epoch),
                 static_cast<unsigned long long>(stream.open));
  if (use.epoch <= stream.passed) return;
  auto at = std::upper_bound(
      stream.fences.begin(), stream.fences.end(), use.epoch,
      [](Epoch epoch, const Milestone& milestone) { return epoch < milestone.use.epoch; });
  stream.fences.insert(at, {use, std::move(fence)});
}

StreamClocks::Milestone StreamClocks::milestone_for(StreamUse use) const {
  for (const Milestone& milestone : at(use.stream).fences) {
    if (milestone.use.epoch >= use.epoch) return milestone;
  }
  return {use, nullptr};
}

std::vector<StreamClocks::Milestone> StreamClocks::milestones() const {
  std::vector<Milestone> result;
  for (size_t number = 0; number < stream_count(); ++number) {
    const Stream& stream = at(static_cast<StreamId>(number));
    result.insert(result.end(), stream.fences.begin(), stream.fences.end());
  }
  return result;
}

void StreamClocks::note_passed(StreamUse use) {
  Stream& stream = at(use.stream);
  stream.passed = std::max(stream.passed, use.epoch);
  auto first_left =
      std::find_if(stream.fences.begin(), stream.fences.end(),
                   [&](const Milestone& milestone) { return milestone.use.epoch > stream.passed; });
  stream.fences.erase(stream.fences.begin(), first_left);
}

std::vector<StreamUse> StreamClocks::close_all() {
  std::vector<StreamUse> closed;
  for (size_t number = 0; number < stream_count(); ++number) {
    auto stream = static_cast<StreamId>(number);
    closed.push_back({stream, close(stream)});
  }
  return closed;
}

void StreamClocks::note_waited(StreamId waiter, StreamUse use) {
  Epoch& epoch = waited_[pair_of(waiter, use.stream)];
  epoch = std::max(epoch, use.epoch);
}

void StreamClocks::check_invariants() const {
  for (size_t number = 0; number < stream_count(); ++number) {
    const Stream& stream = at(static_cast<StreamId>(number));
    TIDEPOOL_CHECK(stream.passed < stream.open, "(1) an open epoch has passed, %llu",
                   static_cast<unsigned long long>(stream.open));
    Epoch previous = stream.passed;
    for (const Milestone& milestone : stream.fences) {
      TIDEPOOL_CHECK(milestone.use.epoch > previous && milestone.use.epoch < stream.open,
                     "(1) fence of epoch %llu", static_cast<unsigned long long>(previous));
      previous = milestone.use.epoch;
    }
  }
}

}  // namespace tidepool
