#include "remat/policies/next_use.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"
#include "tests/support/random.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using remat::NextUsePolicy;
using remat::Storage;

// x -> a -> b -> c, then read in this order: c, a, b, each operator at 10 ns.
struct Job {
  LineageBuilder built{"next-use"};
  NextUsePolicy& policy = dynamic_cast<NextUsePolicy&>(*built.policy);
  Storage *x = nullptr, *a = nullptr, *b = nullptr, *c = nullptr;
  uint64_t now_ns = 1;

  void call(const std::vector<Storage*>& operands, Storage** made, uint64_t cost_ns) {
    const auto call = policy.step_history()->begin(0, operands, now_ns);
    now_ns += 10;
    if (made != nullptr) *made = built.result(operands, cost_ns);
    std::vector<Storage*> outputs;
    if (made != nullptr) outputs.push_back(*made);
    policy.step_history()->finish(call, outputs);
  }
  void make() {
    x = built.root();
    call({x}, &a, 100);
    call({a}, &b, 200);
    call({b}, &c, 400);
  }
  void use(Storage* storage) { call({storage}, nullptr, 0); }
  void end() { policy.step_history()->end_step(now_ns); }
};

TEST_CASE("the time until a use counts, foreseen from the second step on") {
  Job job;
  job.make();
  CHECK(job.policy.price(*job.a, {50, 0}) == 100.0 / 50);  // the first step: by staleness
  job.use(job.c), job.use(job.a), job.use(job.b);
  job.end();
  job.make();
  CHECK(job.policy.price(*job.c, {49, 0}) == 400.0 / 7);   // needed at once
  CHECK(job.policy.price(*job.a, {90, 0}) == 100.0 / 30);  // in 10 ns
  CHECK(job.policy.price(*job.b, {80, 0}) == 200.0 / 40);  // in 20
  job.use(job.c);
  CHECK(job.policy.price(*job.c, {20, 0}) == 400.0 / 40);  // 20 ns are left, and a step of 60
  CHECK(job.policy.price(*job.a, {49, 0}) == 100.0 / 7);
  job.built.check();
}

TEST_CASE("what is evicted below needs it, too, and when it does counts") {
  Job job;
  job.make();
  job.use(job.c), job.use(job.a), job.use(job.b);
  job.end();
  job.make();
  job.built.evict(job.c);
  // b is read at 20 ns, but c, which is made of it, at once; c's cost comes to b's.
  CHECK(job.policy.price(*job.b, {49, 0}) == (200.0 + 400) / 7);
  job.built.install(job.c);
  CHECK(job.policy.price(*job.b, {80, 0}) == 200.0 / 40);
  job.built.check();
}

TEST_CASE("when another step is expected, what was needed at a place in the first one is not") {
  Job job;
  const auto begin = [&] {
    job.make();
    job.use(job.x);
  };
  begin(), job.use(job.a), job.end();
  for (int step = 0; step < 2; ++step) {
    begin();
    for (int k = 0; k < 20; ++k) job.use(job.x);
    job.use(job.c), job.end();
  }
  begin();
  job.built.evict(job.c);
  CHECK(job.policy.price(*job.b, {50, 0}) == (200.0 + 400) / 100);  // in 200 ns, for c
  job.use(job.a);  // as in the first step, which has five calls
  CHECK(job.policy.price(*job.b, {50, 0}) == (200.0 + 400) / 50);  // not before the next step
  job.built.check();
}

TEST_CASE("from the first difference on it is needed-cost") {
  Job job;
  job.make();
  job.use(job.c), job.use(job.a), job.use(job.b);
  job.end();
  job.make();
  job.use(job.b);
  CHECK(job.policy.price(*job.a, {50, 0}) == 100.0 / 50);
  CHECK(job.policy.price(*job.c, {50, 0}) == 400.0 / 50);
}

// A job whose steps are equal: t0, t1, ... are made of x (a page each, at the same cost), then read
// from the first to the last. The least recently used is what is read next: the wrong one to evict.
uint64_t replays(const std::string& policy, int steps) {
  constexpr uint32_t kPageWords = 4096 / 8;
  constexpr int kLength = 12;
  remat::RuntimeConfig config;
  config.policy = policy;
  RematFixture job(10 * 4096, config);
  auto* x = job.input(8);
  uint64_t before = 0;
  for (int step = 0; step < steps; ++step) {
    before = job.statistics().operators_replayed;
    RematFixture::Tensors made;
    for (int k = 0; k < kLength; ++k) made.push_back(job.pure({x}, kPageWords, 1000));
    for (auto* tensor : made) job.drop(job.pure({tensor}, 8, 1000));
    for (auto* tensor : made) job.drop(tensor);
    job.runtime.end_step();
  }
  job.check();
  job.drop(x);
  return job.statistics().operators_replayed - before;
}

TEST_CASE("a job that repeats is replayed less from the second step on") {
  CAPTURE(replays("next-use", 2), replays("needed-cost", 2));
  CHECK(replays("next-use", 1) == replays("needed-cost", 1));
  CHECK(replays("next-use", 2) < replays("needed-cost", 2));
  CHECK(replays("next-use", 3) == replays("next-use", 2));
  CHECK(replays("lru", 2) == replays("lru", 1));
}

// Random steps, run three times each; in some, the last time differs halfway.
TEST_CASE("random jobs that repeat keep their contents, and every cached price") {
  uint64_t evictions = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    remat::RuntimeConfig config;
    config.policy = "next-use";
    RematFixture job((12 + seed % 6) * 4096, config);
    auto* x = job.input(64);
    for (int step = 0; step < 3; ++step) {
      test::Random random(seed);
      RematFixture::Tensors held{x};
      for (int k = 0; k < 40; ++k) {
        if (k == 20 && step == 2 && seed % 3 == 0) random.next();
        const size_t at = random.below(held.size());
        const size_t other = random.below(held.size());
        if (held.size() > 14) {
          if (at > 0) job.drop(held[at]), held.erase(held.begin() + static_cast<long>(at));
        } else if (random.chance(15) && at > 0) {
          job.update(held[at], {held[other]});
        } else {
          const auto words = static_cast<uint32_t>(64 + random.below(600));
          held.push_back(job.pure({held[at], held[other]}, words, 1 + random.below(1000)));
        }
        job.check();
      }
      for (size_t k = 1; k < held.size(); ++k) {
        CHECK(job.matches(held[k]));
        job.drop(held[k]);
      }
      job.runtime.end_step();
    }
    evictions += job.statistics().evictions;
    job.drop(x);
  }
  CHECK(evictions > 400);
}

}  // namespace
}  // namespace tidepool
