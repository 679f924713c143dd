#include "remat/limits.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using remat::RootReason;

remat::RuntimeConfig with_limits(const remat::Limits& limits) {
  remat::RuntimeConfig config;
  config.limits = limits;
  return config;
}

TEST_CASE("a chain of equal values becomes a root at the depth limit") {
  RematFixture job(1 << 20, with_limits({8, 32, 4, 1000}));
  auto y = job.pure({job.input()});
  for (int k = 0; k < 1000; ++k) {
    auto next = job.pure({y});
    job.drop(y);
    y = next;
    REQUIRE(job.value(y).depth <= 8);
  }
  CHECK(job.statistics().records <= 8);
  CHECK(job.statistics().values <= 10);
  CHECK(job.matches(y));
  job.check();
}

TEST_CASE("at the depth limit the smallest value of the chain becomes the root") {
  RematFixture job(1 << 20, with_limits({8, 32, 4, 1000}));
  RematFixture::Tensors chain{job.pure({job.input()}, 256)};
  for (uint32_t k = 1; k < 8; ++k) {
    chain.push_back(job.pure({chain.back()}, k == 5 ? 16 : 256));
  }
  auto last = job.pure({chain.back()}, 256);
  CHECK(!job.is_root(last));
  CHECK(job.is_root(chain[5]));
  CHECK(job.value(chain[5]).reason == RootReason::kDepthLimit);
  CHECK(job.value(last).depth == 3);
  CHECK(job.statistics().root_bytes[static_cast<size_t>(RootReason::kDepthLimit)] == 128);
  job.check();
  for (auto each : chain) job.evict(each);
  CHECK(job.evict(last));
  CHECK(job.matches(last));
}

TEST_CASE("results of one deep value do not all become roots") {
  RematFixture job(1 << 20, with_limits({8, 32, 4, 1000}));
  RematFixture::Tensors chain{job.pure({job.input()}, 64)};
  for (int k = 1; k < 8; ++k) chain.push_back(job.pure({chain.back()}, 64));
  RematFixture::Tensors results;
  for (int k = 0; k < 20; ++k) results.push_back(job.pure({chain.back()}, 16));
  const auto roots =
      std::count_if(results.begin(), results.end(), [&](auto each) { return job.is_root(each); });
  CHECK(roots < 3);
  CHECK(job.is_root(chain.back()));
  for (auto each : results) {
    REQUIRE(job.value(each).depth <= 8);
    if (!job.is_root(each)) CHECK(job.evict(each));
  }
  for (auto each : results) CHECK(job.matches(each));
  job.check();
}

TEST_CASE("results of several deep values are shortened along each chain") {
  RematFixture job(1 << 20, with_limits({8, 32, 4, 1000}));
  RematFixture::Tensors ends;
  for (int branch = 0; branch < 3; ++branch) {
    ends.push_back(job.pure({job.input()}, 16));
    for (int k = 1; k < 8; ++k) ends.back() = job.pure({ends.back()}, 16);
  }
  auto joined = job.pure({ends[0], ends[1], ends[2]}, 256);
  CHECK(!job.is_root(joined));
  CHECK(job.value(joined).depth <= 8);
  CHECK(job.evict(joined));
  CHECK(job.matches(joined));
  job.check();
}

TEST_CASE("in-place versions are limited, and a full overwrite starts anew") {
  RematFixture job(1 << 20, with_limits({128, 4, 4, 1000}));
  auto y = job.pure({job.input()});
  for (int k = 0; k < 4; ++k) {
    job.update(y);
    CHECK(!job.is_root(y));
  }
  job.update(y);
  CHECK(job.value(y).reason == RootReason::kVersionLimit);
  job.overwrite(y);
  CHECK(!job.is_root(y));
  CHECK(job.evict(y));
  CHECK(job.matches(y));
}

TEST_CASE("lineage older than the limit is cut where its result is resident") {
  RematFixture job(1 << 20, with_limits({128, 32, 1, 1000}));
  auto x = job.input();
  auto a = job.pure({x});
  auto b = job.pure({x});
  CHECK(job.evict(b));
  job.runtime.end_step();
  CHECK(!job.is_root(a));
  job.runtime.end_step();
  CHECK(job.value(a).reason == RootReason::kAgeLimit);
  CHECK(!job.is_root(b));
  CHECK(job.matches(b));
  job.runtime.end_step();
  CHECK(job.value(b).reason == RootReason::kAgeLimit);
}

TEST_CASE("what an optimizer has made is a root from the end of its step on") {
  RematFixture job;
  auto gradient = job.pure({job.input()});
  auto state = job.pure({gradient});
  auto evicted = job.pure({gradient});
  for (auto made : {state, evicted}) job.tracked(made)->role = remat::Role::kOptimizerState;
  CHECK(job.evict(evicted));
  job.runtime.end_step();
  CHECK(job.value(state).reason == RootReason::kAgeLimit);
  CHECK(!job.is_root(gradient));
  CHECK(!job.is_root(evicted));
  CHECK(job.matches(evicted));
  job.runtime.end_step();
  CHECK(job.is_root(evicted));
}

TEST_CASE("beyond the greatest number of records results are roots") {
  RematFixture job(1 << 20, with_limits({128, 32, 4, 3}));
  auto x = job.input();
  for (int k = 0; k < 3; ++k) CHECK(!job.is_root(job.pure({x})));
  CHECK(job.value(job.pure({x})).reason == RootReason::kRecordLimit);
}

remat::RuntimeConfig with_bookkeeping(size_t bytes) {
  remat::Limits limits;
  limits.bookkeeping_bytes = bytes;
  remat::RuntimeConfig config = with_limits(limits);
  config.policy = "lru";  // keeps nothing itself, which is looked at only now and then
  return config;
}

TEST_CASE("beyond the greatest bytes of bookkeeping the oldest resident values become roots") {
  constexpr size_t kBytes = 64 << 10;
  RematFixture job(1 << 20, with_bookkeeping(kBytes));
  auto x = job.input();
  RematFixture::Tensors kept;
  while (kept.size() <= 10 || !job.is_root(kept[10])) {
    kept.push_back(job.pure({x}));
    REQUIRE(job.statistics().bookkeeping_bytes <= kBytes);
    REQUIRE(kept.size() < 1000);
  }
  CHECK(job.value(kept[10]).reason == RootReason::kBookkeepingLimit);
  CHECK(job.is_root(kept[0]));
  CHECK(!job.is_root(kept.back()));
  // An eighth at once: the next record finds room.
  const uint64_t before = job.statistics().records;
  job.pure({x});
  CHECK(job.statistics().records == before + 1);
  job.check();
  for (auto each : kept) job.evict(each);
  for (auto each : kept) CHECK(job.matches(each));
  job.check();
}

TEST_CASE("where nothing resident has lineage, results beyond those bytes are roots") {
  constexpr size_t kBytes = 64 << 10;
  RematFixture job(1 << 20, with_bookkeeping(kBytes));
  auto x = job.input();
  RematFixture::Tensors kept;
  while (kept.empty() || !job.is_root(kept.back())) {
    kept.push_back(job.pure({x}));
    job.evict(kept.back());
    REQUIRE(kept.size() < 1000);
  }
  CHECK(job.value(kept.back()).reason == RootReason::kBookkeepingLimit);
  CHECK(job.statistics().bookkeeping_bytes <= kBytes + 512);  // of the last one's storage
  for (auto each : kept) CHECK(job.matches(each));
  job.check();
}

TEST_CASE("what others keep counts towards the limit of bookkeeping") {
  RematFixture job(1 << 20, with_bookkeeping(64 << 10));
  auto x = job.input();
  job.framework.shared_bytes_kept = 64 << 10;
  CHECK(job.value(job.pure({x})).reason == RootReason::kBookkeepingLimit);
  job.framework.shared_bytes_kept = 0;
  CHECK(!job.is_root(job.pure({x})));
}

}  // namespace
}  // namespace tidepool
