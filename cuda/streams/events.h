// EventPool: events of one device, which are made once and used again. DeviceFence: a Fence that is
// an event. Creating an event costs more than recording it, and threads that create events wait for
// each other.
// The pool owns the events that are not in use. A fence owns its event and gives it back at its
// end; fences share the pool, so that it outlives them. Thread safe.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "allocator/streams/fence.h"
#include "cuda/driver/driver.h"

namespace tidepool::device {

class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  // The driver must outlive the pool.
  static std::shared_ptr<EventPool> make(Driver& driver) {
    return std::shared_ptr<EventPool>(new EventPool(driver));
  }
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Returns a fence that passes once all work has run that was enqueued on the stream so far.
  // Requires: the stream is of this device. Throws: DeviceError.
  std::shared_ptr<Fence> record(driver::Stream stream);
  // Makes the stream's later work run after the fence. Requires: the fence came from record(), of
  // any device's pool. Throws: DeviceError.
  void wait(driver::Stream stream, Fence& fence);

  // How many events exist, and how many of them no fence has.
  size_t created() const;
  size_t idle() const;

 private:
  friend class DeviceFence;
  explicit EventPool(Driver& driver) : driver_(driver) {}
  driver::Event acquire();
  void give_back(driver::Event event);

  Driver& driver_;
  mutable std::mutex mutex_;
  std::vector<driver::Event> idle_;
  size_t created_ = 0;
};

class DeviceFence final : public Fence {
 public:
  DeviceFence(std::shared_ptr<EventPool> pool, driver::Event event)
      : pool_(std::move(pool)), event_(event) {}
  ~DeviceFence() override { pool_->give_back(event_); }

  // After an error of the device the fence has not passed; wait() throws the error.
  bool passed() override;
  void wait() override;
  driver::Event event() const { return event_; }

 private:
  std::shared_ptr<EventPool> pool_;
  driver::Event event_;
};

}  // namespace tidepool::device
