#include "cuda/streams/events.h"

#include "allocator/base/check.h"

namespace tidepool::device {

EventPool::~EventPool() {
  // At the end of a process the driver may have gone first; then there is nothing to give back to.
  for (driver::Event event : idle_) (void)driver_.call().EventDestroy(event);
}

driver::Event EventPool::acquire() {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      driver::Event event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  // An event belongs to the context that is current when it is made. Requires: a Scope.
  driver::Event event = nullptr;
  driver_.check(driver_.call().EventCreate(&event, driver::kEventDisableTiming), "cuEventCreate");
  const MutexLock lock(mutex_);
  ++created_;
  return event;
}

void EventPool::give_back(driver::Event event) {
  const MutexLock lock(mutex_);
  idle_.push_back(event);
}

std::shared_ptr<Fence> EventPool::record(driver::Stream stream) {
  Driver::Scope scope(driver_);
  auto fence = std::make_shared<DeviceFence>(shared_from_this(), acquire());
  driver_.check(driver_.call().EventRecord(fence->event(), stream), "cuEventRecord");
  return fence;
}

void EventPool::wait(driver::Stream stream, Fence& fence) {
  auto* ours = dynamic_cast<DeviceFence*>(&fence);
  TIDEPOOL_CHECK(ours != nullptr, "a fence of another kind at %p", static_cast<void*>(&fence));
  Driver::Scope scope(driver_);
  driver_.check(driver_.call().StreamWaitEvent(stream, ours->event(), 0), "cuStreamWaitEvent");
}

size_t EventPool::created() const {
  const MutexLock lock(mutex_);
  return created_;
}

size_t EventPool::idle() const {
  const MutexLock lock(mutex_);
  return idle_.size();
}

bool DeviceFence::passed() try {
  const Driver::Scope scope(pool_->driver_);
  return pool_->driver_.call().EventQuery(event_) == driver::kSuccess;
} catch (const DeviceError&) {
  return false;  // not known to have passed
}

void DeviceFence::wait() {
  const Driver::Scope scope(pool_->driver_);
  pool_->driver_.check(pool_->driver_.call().EventSynchronize(event_), "cuEventSynchronize");
}

}  // namespace tidepool::device
