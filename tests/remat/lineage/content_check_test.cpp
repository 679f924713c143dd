#include "remat/lineage/content_check.h"

#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool::remat {
namespace {

using Tensor = RematFixture::Tensor;

void restore(RematFixture& job, const Tensor& tensor) {
  DeviceLock lock(job.mutex);
  job.runtime.lock_storage(tensor->tracked);
  job.runtime.make_resident({&tensor->tracked, 1}, lock);
  job.runtime.unlock_storage(tensor->tracked);
}

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
  restore(job, a);
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

TEST_CASE("what a value does not show need not come back") {
  RematFixture job;
  ContentCheck check(job.framework);
  check.enable_counts();
  Value value, updated;
  value.bytes = updated.bytes = 16;
  uint64_t contents[] = {1, 2};
  const auto differs = [&](Value& of, size_t word) {
    check.different.clear();
    check.evicted(of, contents);
    ++contents[word];
    check.restored(of, contents);
    return !check.different.empty();
  };
  CHECK(differs(value, 1));
  check.shows(value, 8);
  CHECK(!differs(value, 1));
  CHECK(differs(value, 0));
  check.updated(value, updated);
  CHECK(!differs(updated, 1));
  check.forget(value);
  CHECK(differs(value, 1));
}

TEST_CASE("what is copied of contents that show nothing need not come back, either") {
  RuntimeConfig config;
  config.chaos = Chaos::kRandom;
  RematFixture job(1 << 20, config);
  Tensor x = job.input();
  for (const bool shows_all : {true, false}) {
    Tensor scratch = job.input();
    job.pure({scratch});  // so that it is tracked
    if (!shows_all) {
      const DeviceLock lock(job.mutex);
      job.runtime.call_context().contents.residency.check.shows(*scratch->tracked->current, 0);
    }
    Tensor copy = job.pure({x, scratch});
    if (!copy->tracked->evicted) CHECK(job.evict(copy));
    sim::SimulatedFramework::scribble(scratch, 5);
    restore(job, copy);
    CHECK(job.statistics().contents_different.size() == 1);  // of the first of them
  }
}

TEST_CASE("what was shown of contents that are gone is not taken for what is shown of others") {
  RuntimeConfig config;
  config.chaos = Chaos::kOperator;
  RematFixture job(1 << 20, config);
  ContentCheck& check = job.runtime.call_context().contents.residency.check;
  Tensor x = job.input();
  Tensor a = job.pure({x});
  Value* const gone = a->tracked->current;
  {
    const DeviceLock lock(job.mutex);
    check.shows(*gone, 0);
  }
  job.drop(a);
  Tensor b = job.pure({x});
  REQUIRE(b->tracked->current == gone);  // it has the other's place
  if (!b->tracked->evicted) CHECK(job.evict(b));
  sim::SimulatedFramework::scribble(x, 5);
  CHECK(job.statistics().contents_different.empty());
  restore(job, b);
  CHECK(job.statistics().contents_different.size() == 1);
}

TEST_CASE("contents that others take the place of in a storage are shown as a whole") {
  RuntimeConfig config;
  config.chaos = Chaos::kOperator;
  RematFixture job(1 << 20, config);
  Tensor x = job.input();
  job.drop(job.pure({x}));
  DeviceLock lock(job.mutex);
  Value& value = *x->tracked->current;
  job.runtime.call_context().contents.residency.check.shows(value, 0);
  job.runtime.call_context().versions.start_root_version(*x->tracked, RootReason::kUnsupported);
  CHECK(x->tracked->current == &value);
  CHECK(!value.checked);
}

}  // namespace
}  // namespace tidepool::remat
