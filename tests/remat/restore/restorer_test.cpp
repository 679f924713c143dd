#include "remat/restore/restorer.h"

#include "tests/support/catch.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using Tensor = RematFixture::Tensor;

TEST_CASE("a long chain comes back in one plan, without recursion, and in little memory") {
  remat::RuntimeConfig config;
  config.limits.depth = 100'000;
  RematFixture job(8 << 10, config);
  Tensor y = job.pure({job.input(16)}, 16);
  for (int k = 0; k < 20'000; ++k) {
    Tensor next = job.pure({y}, 16);
    job.drop(y);
    y = next;
  }
  CHECK(job.evict(y));
  CHECK(job.matches(y));
  CHECK(job.statistics().longest_plan == 20'001);
  CHECK(job.statistics().plans == 1);
  CHECK(job.statistics().plan_peak_bytes <= 3 * 128);
  job.check();
}

TEST_CASE("a replayed in-place operator takes the old bytes, or copies them if they are needed") {
  RematFixture job;
  Tensor y = job.pure({job.input()});
  Tensor reader = job.pure({y});
  job.update(y);
  CHECK(job.evict(y));
  CHECK(job.matches(y));
  CHECK(job.statistics().clones == 0);
  CHECK(job.evict(y));
  CHECK(job.evict(reader));
  {
    // Both at once: the old version is read twice.
    DeviceLock lock(job.mutex);
    remat::Storage* both[] = {job.framework.tracked(y), job.framework.tracked(reader)};
    for (remat::Storage* each : both) job.runtime.lock_storage(each);
    job.runtime.make_resident(both, lock);
    for (remat::Storage* each : both) job.runtime.unlock_storage(each);
  }
  CHECK(job.statistics().clones <= 1);
  CHECK(job.statistics().plans == 2);
  CHECK(job.statistics().operators_replayed == 2 + 3);
  CHECK(job.matches(y));
  CHECK(job.matches(reader));
  job.check();
}

TEST_CASE("an operator that reads what it updates replays from the old contents") {
  RematFixture job;
  Tensor y = job.pure({job.input()});
  job.update(y, {y, y});
  job.update(y, {y});
  CHECK(job.evict(y));
  CHECK(job.matches(y));
}

TEST_CASE("a draw is repeated by a replay, and others are not disturbed") {
  RematFixture job;
  Tensor x = job.input();
  Tensor a = job.run({x}, {64}, 10, 1)[0];
  Tensor b = job.run({x}, {64}, 10, 2)[0];
  CHECK(job.evict(a));
  CHECK(job.evict(b));
  CHECK(job.matches(b));
  CHECK(job.matches(a));
}

TEST_CASE("outputs that live come back together, dead ones are not kept") {
  RematFixture job;
  auto three = job.run({job.input()}, {64, 32});
  CHECK(job.evict(three[0]));
  CHECK(job.evict(three[1]));
  CHECK(job.matches(three[0]));
  CHECK(job.statistics().rematerializations == 2);
  CHECK(job.evict(three[0]));
  job.drop(three[1]);
  CHECK(job.matches(three[0]));
  CHECK(job.statistics().rematerializations == 3);
  CHECK(job.statistics().ghosts == 0);
  job.check();
}

TEST_CASE("an operator that fails at a replay leaves everything as it was") {
  for (uint64_t at = 1; at <= 6; ++at) {
    RematFixture job;
    Tensor x = job.input();
    Tensor y = job.pure({x});
    for (int k = 0; k < 2; ++k) {
      Tensor next = job.pure({y, x});
      job.drop(y);
      y = next;
    }
    job.update(y);
    Tensor z = job.pure({y});
    CHECK(job.evict(y));
    CHECK(job.evict(z));
    job.framework.fail_execute_at(at);
    if (at <= 5) {
      CHECK_THROWS_AS(job.matches(z), sim::SimulatedFault);
      job.check();  // no use, lock or ghost is left
    }
    job.framework.fail_execute_at(0);
    CHECK(job.matches(z));
    CHECK(job.matches(y));
    job.check();
  }
}

TEST_CASE("a plan whose inputs do not fit at once is tried without locking them ahead") {
  RematFixture job(16 << 10);
  // Four operands of 3 KiB, each of which has to give way while the others come back.
  Tensor x = job.input(8);
  std::vector<Tensor> parts;
  for (int k = 0; k < 4; ++k) parts.push_back(job.pure({x}, 400));
  Tensor sum = job.pure({parts[0]}, 8);
  for (int k = 1; k < 4; ++k) sum = job.pure({sum, parts[static_cast<size_t>(k)]}, 8);
  CHECK(job.evict(sum));
  Tensor pinned = job.input(800);  // now only two parts fit
  CHECK(job.matches(sum));
  CHECK(job.matches(pinned));
  job.check();
}

TEST_CASE("dead intermediates of which few fit are made again, instead of failing") {
  // What a gradient of the first layer rests on: all layers' results, read in reverse.
  constexpr int kLayers = 24;
  RematFixture job(size_t{kLayers + 8} << 12);
  std::vector<Tensor> layers{job.pure({job.input(8)}, 500)};
  while (layers.size() < kLayers) layers.push_back(job.pure({layers.back()}, 500));
  Tensor gradient = job.pure({layers.back()}, 500);
  while (!layers.empty()) {
    Tensor next = job.pure({gradient, layers.back()}, 500);
    job.drop(gradient);
    job.drop(layers.back());
    layers.pop_back();
    gradient = next;
  }
  CHECK(job.evict(gradient));
  std::vector<Tensor> pinned;
  for (int k = 0; k < kLayers; ++k) {
    pinned.push_back(job.input(500));
    job.tracked(pinned.back());
  }
  CHECK(job.matches(gradient));  // while a third of the layers fits
  CHECK(job.statistics().lean_plans > 1);
  CHECK(job.statistics().operators_replayed < 8 * 2 * kLayers);
  job.check();
}

TEST_CASE("what does not fit is out of memory, with an honest bound, and a retry works") {
  RematFixture job(32 << 10);
  Tensor x = job.input(8);
  Tensor a = job.pure({x}, 1024);
  CHECK(job.evict(a));
  Tensor pinned = job.input(3500);
  job.tracked(pinned);
  try {
    job.matches(a);
    FAIL("fits");
  } catch (const OutOfMemory& error) {
    CHECK(error.report().lower_bound_budget_bytes > 32 << 10);
    CHECK(error.report().lower_bound_budget_bytes <= (8 + 1024 + 3500) * 8 + (3 << 12));
  }
  job.check();
  job.drop(pinned);
  CHECK(job.matches(a));
}

}  // namespace
}  // namespace tidepool
