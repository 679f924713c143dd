// Order: streams, events, and what is known to happen before what.
// Every stream has a vector clock; an event is a copy of one; a wait joins it. Two clocks stand for
// the device (what is done) and the host (what it knows to be done). One clock for all host
// threads: it may miss a race between threads, but never reports one that is not there.
// Virtual time runs on every stream and for the host: an operation begins when the stream has done
// what it was given, what it waits for is over, and the host has come to it.
// Owns streams and events. Not thread safe: the machine's lock is held.
// Invariants: (1) the host knows only what the device has done; (2) a stream's clock covers all
// that the host knew when the stream's newest operation was enqueued.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/core/call_book.h"
#include "tests/support/fake_cuda/core/settings.h"
#include "tests/support/fake_cuda/core/vector_clock.h"

namespace tidepool::fake_cuda {

enum class CaptureId : uint64_t { kNone = 0 };

struct Stream {
  StreamId id{};
  int device = 0;
  int priority = 0;
  unsigned flags = 0;
  bool is_legacy = false;
  bool blocks = true;       // ordered with its device's legacy stream
  Tick tick = 0;            // of what was enqueued last, an event's record included
  Tick operation_tick = 0;  // of its newest operation
  VectorClock clock;
  uint64_t time_ns = 0;     // virtual: when its work will be done
  uint64_t waits_ns = 0;    // until when it waits for other streams
  uint64_t stalled_ns = 0;  // for how long it had work, and waited for other streams
  uint64_t queries_left = 0;
  uint64_t host_version = 0;  // of the host's clock that `clock` has joined
  CaptureId capture = CaptureId::kNone;
};

struct Event {
  uint64_t id = 0;
  int device = 0;
  unsigned flags = 0;
  bool is_recorded = false;
  StreamId stream{};
  VectorClock clock;
  uint64_t time_ns = 0;
  uint64_t queries_left = 0;
  CaptureId capture = CaptureId::kNone;  // the one it was recorded in
};

constexpr unsigned kNonBlocking = 1;    // of a stream's flags
constexpr unsigned kDisableTiming = 2;  // of an event's flags

class Order {
 public:
  // Requires: settings and book outlive it.
  Order(const Settings& settings, CallBook& book);

  Stream& create_stream(int device, unsigned flags, int priority);
  // Throws: Refusal with kInvalidHandle for a handle that is not alive, as all below.
  void destroy_stream(void* handle);
  // The stream behind a handle of the driver's or the runtime's; 0 and 1 are `device`'s legacy
  // stream, 2 is the calling thread's default stream there, which is made when it is first used.
  Stream& stream(void* handle, int device);
  const Stream* find(StreamId id) const;
  size_t live_streams() const { return streams_.size() - legacy_.size() - of_threads_.size(); }

  Event& create_event(int device, unsigned flags);
  void destroy_event(void* handle);
  Event& event(void* handle);
  size_t live_events() const { return events_.size(); }

  // The stream's clock, with what comes before an operation that is enqueued now.
  const VectorClock& entered(Stream& stream) {
    enter(stream);
    return stream.clock;
  }

  // What does one operation at a time, such as a direction of a link, in the order in which the
  // operations were enqueued.
  struct Engine {
    uint64_t free_ns = 0;  // when it has done all that it was given
  };
  // Enqueues one operation of the given price, on an engine that it needs; its tick is the stream's
  // newest.
  void advance(Stream& stream, uint64_t device_ns, Engine* engine = nullptr);
  void record(Event& event, Stream& stream);
  void wait(Stream& stream, const Event& event);

  // Virtual: when the stream will have done all that it was given.
  static uint64_t done_ns(const Stream& stream) {
    return std::max(stream.time_ns, stream.waits_ns);
  }

  // Whether the work is done; if it is, the host knows it now. Counts a late event down.
  bool poll(Event& event);
  bool poll(Stream& stream);
  void synchronize(const Event& event);
  void synchronize(Stream& stream);
  void synchronize_device(int device);
  // The device has done all work of the stream so far; the host does not know yet.
  void complete(const Stream& stream) { done_.join(stream.clock); }

  const VectorClock& host() const { return host_; }
  // The newest operation of every stream there ever was, records not among them.
  const VectorClock& newest() const { return newest_; }
  // All that a device's streams were given.
  VectorClock newest(int device) const;

 private:
  Stream& stream_of_thread(int device);
  void enter(Stream& stream);
  void learn(const VectorClock& clock, uint64_t time_ns);
  bool poll(const VectorClock& clock, uint64_t time_ns, uint64_t& queries_left);

  const Settings& settings_;
  CallBook& book_;
  std::map<void*, std::unique_ptr<Stream>> streams_;
  std::map<StreamId, Stream*> by_id_;
  std::vector<Stream*> legacy_;                             // by device
  std::map<std::pair<uint64_t, int>, Stream*> of_threads_;  // by thread and device
  std::map<void*, std::unique_ptr<Event>> events_;
  uint32_t next_stream_ = 0;
  uint64_t next_event_ = 1;
  VectorClock newest_;
  VectorClock done_;
  VectorClock host_;
  uint64_t host_version_ = 1;
};

}  // namespace tidepool::fake_cuda
