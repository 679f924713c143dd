// EventPool: events of one device, made once and used again; DeviceFence: a Fence that is an event.
// Creating events costs more than recording them, and many threads doing so wait for each other.
// Owns the events that are not in use; a fence gives its event back at its end, so the pool must
// outlive it: fences share it. Thread safe.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "allocator/streams/fence.h"
#include "cuda/driver.h"

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

  // A fence that passes once all work that was enqueued on the stream so far has run. Requires: the
  // stream is of this device. Throws: DeviceError.
  std::shared_ptr<Fence> record(driver::Stream stream);
  // The stream's later work runs after the fence. Requires: the fence came from record(), of any
  // device's pool. Throws: DeviceError.
  void wait(driver::Stream stream, Fence& fence);

  // Events that exist, and those of them that no fence has.
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

  // An error of the device is no passing: wait() says it.
  bool passed() override;
  void wait() override;
  driver::Event event() const { return event_; }

 private:
  std::shared_ptr<EventPool> pool_;
  driver::Event event_;
};

}  // namespace tidepool::device
