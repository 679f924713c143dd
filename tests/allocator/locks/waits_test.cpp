#include "allocator/locks/waits.h"

#include <atomic>
#include <memory>
#include <thread>

#include "allocator/locks/calls_in_flight.h"
#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("what was dropped is destroyed before a thread waits, without the waiters' own lock") {
  // A burial takes the device's lock, as freeing a storage does, while another thread holds that
  // and notifies. Inside the condition variable, each would wait for the other.
  DeviceMutex mutex;
  CallsInFlight calls;
  struct Storage {
    DeviceMutex& mutex;
    std::atomic<bool> begun{false}, freed{false};
  } storage{mutex, {}, {}};
  DeviceLock lock(mutex);
  auto sequence = std::make_unique<CallsInFlight::Sequence>(calls);
  mutex.drop_later(&storage, [](void* object) {
    auto& dropped = *static_cast<Storage*>(object);
    dropped.begun = true;
    for (int k = 0; k < 20; ++k) std::this_thread::yield();
    const DeviceLock again(dropped.mutex);
    dropped.freed = true;
  });
  std::thread ends([&] {
    DeviceLock other(mutex);
    while (!storage.begun) {
      other.unlock();
      std::this_thread::yield();
      other.lock();
    }
    sequence.reset();
  });
  calls.wait_for_one(lock);
  CHECK(storage.freed);
  CHECK(!calls.any());
  lock.unlock();
  ends.join();
}

}  // namespace
}  // namespace tidepool
