#include "remat/restore/turns.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::Turns;

TEST_CASE("the same thread may take its turn again") {
  LineageBuilder backend;
  Turns turns(backend);
  DeviceMutex mutex;
  DeviceLock lock(mutex);
  turns.take_turn(lock);
  turns.take_turn(lock);
  CHECK(turns.is_my_turn());
  turns.end_turn();
  CHECK(turns.is_my_turn());
  turns.end_turn();
  CHECK(!turns.is_taken());
  turns.check_invariants();
}

TEST_CASE("out of memory is final where nobody else holds anything") {
  LineageBuilder backend;
  Turns turns(backend);
  DeviceMutex mutex;
  DeviceLock lock(mutex);
  CHECK(!turns.wait_for_room(lock));
  Turns::Holder mine;
  turns.enter(mine);
  CHECK(!turns.wait_for_room(lock));
  turns.leave(mine);
  CHECK(turns.is_quiet());
}

TEST_CASE("turns are taken one at a time, in order", "[stress]") {
  LineageBuilder backend;
  Turns turns(backend);
  DeviceMutex mutex;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        DeviceLock lock(mutex);
        turns.take_turn(lock);
        most = std::max(most.load(), ++inside);
        ++count;
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
        --inside;
        turns.end_turn();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 800);
  CHECK(most == 1);
  turns.check_invariants();
}

TEST_CASE("who waits for room is told when others let go", "[stress]") {
  LineageBuilder backend;
  Turns turns(backend);
  DeviceMutex mutex;
  Turns::Holder other;
  std::atomic<bool> entered{false};
  bool waits = false;  // guarded by the mutex
  std::thread running([&] {
    DeviceLock lock(mutex);
    turns.enter(other);
    entered = true;
    while (!waits) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
    turns.leave(other);
  });
  while (!entered) std::this_thread::yield();
  DeviceLock lock(mutex);
  waits = true;  // the other thread cannot let go before the lock is released
  int looks = 0;
  while (turns.wait_for_room(lock)) ++looks;
  CHECK(looks > 0);
  CHECK(turns.is_quiet());
  lock.unlock();
  running.join();
}

TEST_CASE("when all who hold operands wait, the youngest gives up", "[stress]") {
  LineageBuilder backend;
  Turns turns(backend);
  DeviceMutex mutex;
  std::atomic<int> gave_up{0};
  std::atomic<int> entered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      DeviceLock lock(mutex);
      Turns::Holder mine;
      turns.enter(mine);
      ++entered;
      while (entered < 3) {
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
      }
      while (turns.wait_for_room(lock)) {
      }
      ++gave_up;
      turns.leave(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(gave_up == 3);  // one after the other: each in the end found nobody to wait for
  CHECK(turns.is_quiet());
}

}  // namespace
}  // namespace tidepool
