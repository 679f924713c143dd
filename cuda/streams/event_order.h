// EventOrder: a StreamOrder over a device's streams and events.
// Owns only a share of the pool of events; driver and stream table must outlive it. Thread safe.
#pragma once

#include <memory>

#include "allocator/streams/stream_order.h"
#include "cuda/streams/events.h"
#include "cuda/streams/stream_table.h"

namespace tidepool::device {

class EventOrder final : public StreamOrder {
 public:
  EventOrder(Driver& driver, StreamTable& streams, std::shared_ptr<EventPool> events)
      : driver_(driver), streams_(streams), events_(std::move(events)) {}

  std::shared_ptr<Fence> record(StreamId stream) override {
    return events_->record(streams_.stream_of(stream));
  }
  void wait(StreamId stream, Fence& fence) override {
    events_->wait(streams_.stream_of(stream), fence);
  }
  void finish() override {
    Driver::Scope scope(driver_);
    driver_.check(driver_.call().CtxSynchronize(), "cuCtxSynchronize");
  }

 private:
  Driver& driver_;
  StreamTable& streams_;
  std::shared_ptr<EventPool> events_;
};

}  // namespace tidepool::device
