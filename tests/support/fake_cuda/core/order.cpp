#include "tests/support/fake_cuda/core/order.h"

#include <fmt/format.h>

#include <atomic>

namespace tidepool::fake_cuda {
namespace {

// A number that no other thread has, had or will have.
uint64_t this_thread() {
  static std::atomic<uint64_t> next = 0;
  static thread_local const uint64_t mine = next++;
  return mine;
}

// Who asks again and again whether work is done sees time pass.
constexpr uint64_t kAskAgainNs = 1000;

}  // namespace

Order::Order(const Settings& settings, CallBook& book) : settings_(settings), book_(book) {
  for (int device = 0; device < settings.devices; ++device) {
    Stream& stream = create_stream(device, 0, 0);
    stream.is_legacy = true;
    legacy_.push_back(&stream);
  }
}

Stream& Order::create_stream(int device, unsigned flags, int priority) {
  auto made = std::make_unique<Stream>();
  Stream& stream = *made;
  stream.id = static_cast<StreamId>(next_stream_++);
  stream.device = device;
  stream.flags = flags;
  stream.priority = priority;
  stream.blocks = (flags & kNonBlocking) == 0;
  by_id_[stream.id] = &stream;
  streams_[&stream] = std::move(made);
  return stream;
}

void Order::destroy_stream(void* handle) {
  const auto found = streams_.find(handle);
  if (found == streams_.end() || found->second->is_legacy) {
    throw Refusal(Error::kInvalidHandle, fmt::format("{} is no stream", handle));
  }
  by_id_.erase(found->second->id);
  streams_.erase(found);
}

Stream& Order::stream_of_thread(int device) {
  Stream*& stream = of_threads_[{this_thread(), device}];
  if (!stream) stream = &create_stream(device, 0, 0);
  return *stream;
}

Stream& Order::stream(void* handle, int device) {
  constexpr uintptr_t kLegacy = 1;
  constexpr uintptr_t kOfThread = 2;
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= kOfThread) {
    if (device < 0 || static_cast<size_t>(device) >= legacy_.size()) {
      throw Refusal(Error::kInvalidDevice, fmt::format("there is no device {}", device));
    }
    return number <= kLegacy ? *legacy_[static_cast<size_t>(device)] : stream_of_thread(device);
  }
  const auto found = streams_.find(handle);
  if (found == streams_.end()) {
    throw Refusal(Error::kInvalidHandle, fmt::format("{} is no stream", handle));
  }
  return *found->second;
}

const Stream* Order::find(StreamId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Event& Order::create_event(int device, unsigned flags) {
  auto made = std::make_unique<Event>();
  Event& event = *made;
  event.id = next_event_++;
  event.device = device;
  event.flags = flags;
  events_[&event] = std::move(made);
  return event;
}

void Order::destroy_event(void* handle) {
  if (events_.erase(handle) == 0) {
    throw Refusal(Error::kInvalidHandle, fmt::format("{} is no event", handle));
  }
}

Event& Order::event(void* handle) {
  const auto found = events_.find(handle);
  if (found == events_.end()) {
    throw Refusal(Error::kInvalidHandle, fmt::format("{} is no event", handle));
  }
  return *found->second;
}

// What the host knows, and what the legacy stream's rule orders, comes before what is enqueued now.
void Order::enter(Stream& stream) {
  if (stream.host_version != host_version_) {
    stream.clock.join(host_);
    stream.host_version = host_version_;
  }
  if (stream.is_legacy) {
    for (const auto& [handle, other] : streams_) {
      if (other->device != stream.device || !other->blocks || other.get() == &stream) continue;
      stream.clock.join(other->clock);
      stream.waits_ns = std::max(stream.waits_ns, done_ns(*other));
    }
  } else if (stream.blocks) {
    const Stream& legacy = *legacy_.at(stream.device);
    stream.clock.join(legacy.clock);
    stream.waits_ns = std::max(stream.waits_ns, done_ns(legacy));
  }
}

void Order::advance(Stream& stream, uint64_t device_ns, Engine* engine) {
  enter(stream);
  const uint64_t idle_since_ns = std::max(stream.time_ns, book_.host_time_ns());
  uint64_t begin_ns = std::max(idle_since_ns, stream.waits_ns);
  stream.stalled_ns += begin_ns - idle_since_ns;
  if (engine) begin_ns = std::max(begin_ns, engine->free_ns);
  stream.time_ns = begin_ns + device_ns;
  if (engine) engine->free_ns = stream.time_ns;
  stream.clock.raise(stream.id, ++stream.tick);
  stream.operation_tick = stream.tick;
  newest_.raise(stream.id, stream.tick);
  stream.queries_left = settings_.late_queries;
}

void Order::record(Event& event, Stream& stream) {
  enter(stream);
  stream.clock.raise(stream.id, ++stream.tick);  // pending, though no operation is
  stream.queries_left = settings_.late_queries;
  event.is_recorded = true;
  event.stream = stream.id;
  event.clock = stream.clock;
  event.time_ns = std::max(done_ns(stream), book_.host_time_ns());
  event.queries_left = settings_.late_queries;
  event.capture = stream.capture;
}

void Order::wait(Stream& stream, const Event& event) {
  if (!event.is_recorded) return;
  enter(stream);
  stream.clock.join(event.clock);
  stream.waits_ns = std::max(stream.waits_ns, event.time_ns);
}

void Order::learn(const VectorClock& clock, uint64_t time_ns) {
  done_.join(clock);
  if (host_.join(clock)) ++host_version_;
  book_.wait_until(time_ns);
}

bool Order::poll(const VectorClock& clock, uint64_t time_ns, uint64_t& queries_left) {
  if (!done_.covers(clock)) {
    if (queries_left == kOnlyWhenAsked) return false;
    if (queries_left > 0) {
      --queries_left;
      return false;
    }
    if (settings_.is_timed && time_ns > book_.host_time_ns()) {
      book_.pass(kAskAgainNs);
      return false;
    }
  }
  learn(clock, time_ns);
  return true;
}

bool Order::poll(Event& event) {
  return !event.is_recorded || poll(event.clock, event.time_ns, event.queries_left);
}

bool Order::poll(Stream& stream) {
  enter(stream);
  return poll(stream.clock, done_ns(stream), stream.queries_left);
}

void Order::synchronize(const Event& event) {
  if (event.is_recorded) learn(event.clock, event.time_ns);
}

void Order::synchronize(Stream& stream) {
  enter(stream);
  learn(stream.clock, done_ns(stream));
}

VectorClock Order::newest(int device) const {
  VectorClock all;
  for (const auto& [handle, stream] : streams_) {
    if (stream->device == device) all.join(stream->clock);
  }
  return all;
}

void Order::synchronize_device(int device) {
  for (const auto& [handle, stream] : streams_) {
    if (stream->device == device) learn(stream->clock, done_ns(*stream));
  }
}

}  // namespace tidepool::fake_cuda
