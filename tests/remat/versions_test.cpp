// What several parts of the runtime do together: protecting the readers of a root, snapshots.
#include "remat/versions.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using Tensor = RematFixture::Tensor;

TEST_CASE("where the readers of a root do not fit, its old contents are copied before a write") {
  RematFixture job(32 << 10);
  Tensor x = job.input(64);
  Tensor big = job.pure({x}, 1500);
  Tensor small = job.pure({big}, 16);
  CHECK(job.evict(big));
  CHECK(job.evict(small));
  Tensor pinned = job.input(2500);  // `big` has no room beside this
  job.tracked(pinned);
  job.update(x);
  CHECK(job.statistics().snapshots == 1);
  CHECK(job.statistics().retained_bytes == 512);
  CHECK(big->evicted);
  job.check();
  CHECK(job.matches(x));
  job.drop(pinned);
  CHECK(job.matches(big));
  CHECK(job.matches(small));
  CHECK(job.statistics().retained_bytes == 0);
  job.check();
}

TEST_CASE("a write waits for a replay that began while the old contents were copied") {
  RematFixture job(32 << 10);
  Tensor x = job.input(64);
  Tensor big = job.pure({x}, 1500);
  Tensor small = job.pure({x}, 16);
  CHECK(job.evict(big));
  CHECK(job.evict(small));
  Tensor pinned = job.input(2500);
  job.tracked(pinned);
  const void* const contents = x->address;
  const auto writer = std::this_thread::get_id();
  std::thread reader;
  std::atomic<bool> reading = false;
  bool matched = false;
  job.framework.on_use = [&](StreamId, const void* address, size_t bytes) {
    if (std::this_thread::get_id() != writer) {
      if (address != contents || reading.exchange(true)) return;
      // Had the writer not to wait, it would be done before this has read.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } else if (bytes == x->bytes() && address != contents && !reader.joinable()) {  // the copy
      job.evict(small);
      reader = std::thread([&] { matched = job.matches(small); });
      while (!reading) std::this_thread::yield();
    }
  };
  job.update(x);
  REQUIRE(reader.joinable());
  reader.join();
  job.framework.on_use = nullptr;
  CHECK(matched);
  CHECK(job.statistics().snapshots == 1);
  CHECK(job.matches(x));
  job.drop(pinned);
  CHECK(job.matches(big));
  job.check();
}

TEST_CASE("where not even a copy fits, the write fails before it begins") {
  RematFixture job(32 << 10);
  Tensor x = job.input(1200);
  Tensor a = job.pure({x}, 1200);
  CHECK(job.evict(a));
  Tensor pinned = job.input(2600);
  job.tracked(pinned);
  CHECK_THROWS_AS(job.update(x), OutOfMemory);
  CHECK(job.matches(x));
  CHECK(job.tracked(x)->locks == 0);
  CHECK(!job.tracked(x)->writing);
  job.check();
  job.drop(pinned);
  job.update(x);
  CHECK(job.matches(a));
  CHECK(job.matches(x));
}

TEST_CASE("a dying reader does not hold up a write") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({a});
  CHECK(job.evict(a));
  CHECK(job.evict(b));
  REQUIRE(job.framework.drop_reference_silently(a));
  job.update(x);  // finds that `a` is dying, and restores `b` through it
  CHECK(job.tracked(a)->dying);
  job.framework.report_death(a);
  job.check();
  CHECK(job.matches(b));
  CHECK(job.is_root(b));
}

}  // namespace
}  // namespace tidepool
