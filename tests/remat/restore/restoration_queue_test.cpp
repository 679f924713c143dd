#include "remat/restore/restoration_queue.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::RestorationQueue;

TEST_CASE("the same thread may take its turn again") {
  LineageBuilder backend;
  RestorationQueue queue(backend);
  DeviceMutex mutex;
  DeviceLock lock(mutex);
  queue.take_turn(lock);
  queue.take_turn(lock);
  CHECK(queue.is_my_turn());
  queue.end_turn();
  CHECK(queue.is_my_turn());
  queue.end_turn();
  CHECK(!queue.is_taken());
  queue.check_invariants();
}

TEST_CASE("out of memory is final where nobody else holds anything") {
  LineageBuilder backend;
  RestorationQueue queue(backend);
  DeviceMutex mutex;
  DeviceLock lock(mutex);
  CHECK(!queue.wait_for_room(lock));
  RestorationQueue::Holder mine;
  queue.enter(mine);
  CHECK(!queue.wait_for_room(lock));
  queue.leave(mine);
  CHECK(queue.is_quiet());
}

TEST_CASE("turns are taken one at a time, in order", "[stress]") {
  LineageBuilder backend;
  RestorationQueue queue(backend);
  DeviceMutex mutex;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        DeviceLock lock(mutex);
        queue.take_turn(lock);
        most = std::max(most.load(), ++inside);
        ++count;
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
        --inside;
        queue.end_turn();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 800);
  CHECK(most == 1);
  queue.check_invariants();
}

TEST_CASE("threads of a forked child take turns, too", "[stress]") {
  LineageBuilder backend;
  RestorationQueue queue(backend);
  DeviceMutex mutex;
  DeviceLock lock(mutex);
  queue.become_forked_child();
  queue.take_turn(lock);
  std::atomic<int> asked{0};
  int served = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      ++asked;
      DeviceLock own(mutex);
      queue.take_turn(own);
      ++served;
      queue.end_turn();
    });
  }
  while (asked < 3) std::this_thread::yield();
  lock.unlock();  // they wait by now, or will
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  lock.lock();
  queue.end_turn();
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  CHECK(served == 3);
}

TEST_CASE("who waits for room is told when others let go", "[stress]") {
  LineageBuilder backend;
  RestorationQueue queue(backend);
  DeviceMutex mutex;
  RestorationQueue::Holder other;
  std::atomic<bool> entered{false};
  bool waits = false;  // guarded by the mutex
  std::thread running([&] {
    DeviceLock lock(mutex);
    queue.enter(other);
    entered = true;
    while (!waits) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
    queue.leave(other);
  });
  while (!entered) std::this_thread::yield();
  DeviceLock lock(mutex);
  waits = true;  // the other thread cannot let go before the lock is released
  int looks = 0;
  while (queue.wait_for_room(lock)) ++looks;
  CHECK(looks > 0);
  CHECK(queue.is_quiet());
  lock.unlock();
  running.join();
}

TEST_CASE("when all who hold operands wait, the youngest gives up", "[stress]") {
  LineageBuilder backend;
  RestorationQueue queue(backend);
  DeviceMutex mutex;
  std::atomic<int> gave_up{0};
  std::atomic<int> entered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      DeviceLock lock(mutex);
      RestorationQueue::Holder mine;
      queue.enter(mine);
      ++entered;
      while (entered < 3) {
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
      }
      while (queue.wait_for_room(lock)) {
      }
      ++gave_up;
      queue.leave(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(gave_up == 3);  // one after the other: each in the end found nobody to wait for
  CHECK(queue.is_quiet());
}

}  // namespace
}  // namespace tidepool
