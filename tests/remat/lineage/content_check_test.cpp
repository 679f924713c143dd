#include "remat/lineage/content_check.h"

#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool::remat {
namespace {

using Tensor = RematFixture::Tensor;

TEST_CASE("contents that come back are compared with those that were evicted") {
  RuntimeConfig config;
  config.chaos = Chaos::kRandom;
  RematFixture job(1 << 20, config);
  Tensor x = job.input();
  Tensor a = job.pure({x});
  if (!a->tracked->evicted) CHECK(job.evict(a));
  CHECK(job.matches(a));
  const RuntimeStatistics after = job.statistics();
  CHECK(after.contents_compared > 0);
  CHECK(after.contents_different.empty());
}

TEST_CASE("contents that differ are counted by the operator that made them") {
  RuntimeConfig config;
  config.chaos = Chaos::kRandom;
  RematFixture job(1 << 20, config);
  Tensor x = job.input();
  Tensor a = job.pure({x});
  if (!a->tracked->evicted) CHECK(job.evict(a));
  sim::SimulatedFramework::scribble(x, 5);  // behind the runtime's back
  DeviceLock lock(job.mutex);
  job.runtime.lock_storage(a->tracked);
  job.runtime.make_resident({&a->tracked, 1}, lock);
  job.runtime.unlock_storage(a->tracked);
  lock.unlock();
  CHECK(job.statistics().contents_different.size() == 1);
}

TEST_CASE("contents made are counted by operator, and once each those that came back") {
  RuntimeConfig config;
  config.chaos = Chaos::kOperator;
  RematFixture job(1 << 20, config);
  Tensor x = job.input();
  Tensor a = job.pure({x});
  job.pure({x});
  job.update(a);
  for (int k = 0; k < 3; ++k) CHECK(job.matches(a));
  uint64_t made = 0;
  uint64_t restored = 0;
  for (const auto& [name, counts] : job.statistics().chaos_coverage) {
    made += counts.made;
    restored += counts.restored;
  }
  CHECK(made == 3);
  CHECK(restored == 2);  // both versions of one, and nothing of the other
}

TEST_CASE("contents that differ are not given back where they are compared without chaos") {
  RuntimeConfig config;
  config.compares_restored = true;
  RematFixture job(1 << 20, config);
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Tensor b = job.pure({x});
  CHECK(job.evict(b));
  CHECK(job.matches(b));
  CHECK(job.evict(a));
  sim::SimulatedFramework::scribble(x, 5);  // behind the runtime's back
  {
    DeviceLock lock(job.mutex);
    job.runtime.lock_storage(a->tracked);
    CHECK_THROWS_WITH(job.runtime.make_resident({&a->tracked, 1}, lock),
                      Catch::Matchers::ContainsSubstring("came back with other bits"));
    CHECK(a->tracked->evicted);
    job.runtime.unlock_storage(a->tracked);
  }
  job.runtime.check_invariants();
  CHECK(job.statistics().contents_compared == 1);
  CHECK(job.statistics().chaos_coverage.empty());
}

TEST_CASE("without chaos nothing is compared") {
  RematFixture job;
  Tensor a = job.pure({job.input()});
  CHECK(job.evict(a));
  CHECK(job.matches(a));
  CHECK(job.statistics().contents_compared == 0);
  CHECK(job.statistics().chaos_coverage.empty());
}

}  // namespace
}  // namespace tidepool::remat
