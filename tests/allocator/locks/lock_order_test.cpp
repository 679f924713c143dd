#include "allocator/locks/lock_order.h"

#include <thread>

#include "tests/support/catch.h"

namespace tidepool {
namespace {

TEST_CASE("locks are taken in one order, each thread for itself") {
  CHECK(LockOrder::allows(LockRank::kOperators));
  LockOrder::acquired(LockRank::kOperators);
  CHECK_FALSE(LockOrder::allows(LockRank::kOperators));
  CHECK(LockOrder::allows(LockRank::kDevice));
  LockOrder::acquired(LockRank::kDevice);
  CHECK_FALSE(LockOrder::allows(LockRank::kDevice));
  CHECK(LockOrder::allows(LockRank::kSpace));
  std::thread([] { CHECK(LockOrder::allows(LockRank::kOperators)); }).join();
  LockOrder::released(LockRank::kDevice);
  CHECK(LockOrder::allows(LockRank::kDevice));
  LockOrder::released(LockRank::kOperators);
  CHECK(LockOrder::allows(LockRank::kOperators));
}

#ifndef NDEBUG
TEST_CASE("a ranked mutex is held from lock to unlock") {
  RankedMutex<LockRank::kDevice> mutex;
  {
    std::lock_guard guard(mutex);
    CHECK_FALSE(LockOrder::allows(LockRank::kDevice));
  }
  CHECK(LockOrder::allows(LockRank::kDevice));
  CHECK(mutex.try_lock());
  std::thread([&] { CHECK_FALSE(mutex.try_lock()); }).join();
  CHECK_FALSE(LockOrder::allows(LockRank::kOperators));
  mutex.unlock();
  CHECK(LockOrder::allows(LockRank::kOperators));
}
#endif

}  // namespace
}  // namespace tidepool
