#include "remat/restore/prefetcher.h"

#include <memory>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/memory_tier.h"
#include "tests/support/random.h"
#include "tests/support/remat_fixture.h"

namespace tidepool {
namespace {

using Tensor = RematFixture::Tensor;

constexpr double kNsPerByte = 1;  // 512 ns for 64 words of 8 bytes

// A job whose steps read its parameters one after the other, each by an operator of 400 ns.
struct SteppingJob {
  explicit SteppingJob(const MemoryTier::Settings& settings = MemoryTier::beside(kNsPerByte),
                       size_t budget_bytes = 1 << 20)
      : job(budget_bytes, config_of("next-use"), nullptr, std::make_unique<MemoryTier>(settings)) {
    for (int k = 0; k < 4; ++k) parameters.push_back(job.input());
  }

  void read(size_t parameter) { job.drop(job.pure({parameters[parameter]}, 64, 400)); }
  void step() {
    for (size_t k = 0; k < parameters.size(); ++k) read(k);
    job.runtime.end_step();
  }
  bool is_evicted(size_t parameter) { return job.tracked(parameters[parameter])->evicted; }

  RematFixture job;
  std::vector<Tensor> parameters;
};

TEST_CASE("what the next operators read is brought back before they begin") {
  SteppingJob stepping;
  RematFixture& job = stepping.job;
  stepping.step();
  stepping.step();
  REQUIRE(job.evict(stepping.parameters[2]));
  SECTION("when its load would not be over otherwise") {
    stepping.read(0);
    CHECK_FALSE(stepping.is_evicted(2));
    CHECK(job.statistics().prefetches == 1);
    CHECK(job.statistics().prefetch_hits == 0);
    CHECK(job.matches(stepping.parameters[2]));
    stepping.read(1);
    stepping.read(2);
    CHECK(job.statistics().prefetch_hits == 1);
    CHECK(job.statistics().prefetch_wasted_bytes == 0);
  }
  SECTION("and not before it has to begin") {
    REQUIRE(job.evict(stepping.parameters[3]));
    stepping.read(0);  // 2 has to come at once, so that 3, which waits for it, is in time
    CHECK_FALSE(stepping.is_evicted(2));
    CHECK_FALSE(stepping.is_evicted(3));
    CHECK(job.statistics().prefetches == 2);
  }
  SECTION("not for a step that is another one than expected") {
    job.drop(job.pure({stepping.parameters[0], stepping.parameters[1]}, 64, 400));
    CHECK(stepping.is_evicted(2));
    CHECK(job.statistics().prefetches == 0);
  }
  SECTION("what leaves again before it was read was brought back in vain") {
    stepping.read(0);
    REQUIRE(job.evict(stepping.parameters[2]));
    stepping.read(1);  // it comes again
    CHECK(job.statistics().prefetches == 2);
    CHECK(job.statistics().prefetch_wasted_bytes == 512);
  }
  SECTION("so was what dies") {
    stepping.read(0);
    job.drop(std::exchange(stepping.parameters[2], nullptr));
    CHECK(job.statistics().prefetch_wasted_bytes == 512);
    stepping.parameters.clear();
  }
  SECTION("what dies is not looked for any more") {
    job.drop(stepping.parameters[2]);
    stepping.parameters.clear();
    job.runtime.end_step();
    CHECK(job.statistics().prefetches == 0);
  }
  job.check();
}

// As with two optimizers, the steps of which differ.
TEST_CASE("what the next operators read is brought back in each of two steps in turn") {
  SteppingJob stepping;
  RematFixture& job = stepping.job;
  const auto forth = [&] { stepping.step(); };
  const auto back = [&] {
    for (size_t k = 4; k-- > 0;) {
      job.drop(job.pure({stepping.parameters[k], stepping.parameters[k]}, 64, 400));
    }
    job.runtime.end_step();
  };
  for (int k = 0; k < 4; ++k) forth(), back();
  job.runtime.end_step();  // an optimizer that has nothing to do
  REQUIRE(job.evict(stepping.parameters[2]));
  stepping.read(0);
  CHECK_FALSE(stepping.is_evicted(2));
  for (size_t k = 1; k < 4; ++k) stepping.read(k);
  job.runtime.end_step();
  CHECK(job.statistics().prefetch_hits == 1);
  REQUIRE(job.evict(stepping.parameters[1]));
  job.drop(job.pure({stepping.parameters[3], stepping.parameters[3]}, 64, 400));
  CHECK_FALSE(stepping.is_evicted(1));
  CHECK(job.statistics().prefetches == 2);
  CHECK(job.statistics().fetches == 2);
  CHECK(job.matches(stepping.parameters[1]));
  job.check();
}

TEST_CASE("a load that has time is not begun early") {
  MemoryTier::Settings settings = MemoryTier::beside(kNsPerByte);
  settings.ns_per_byte = 0.1;  // 52 ns, less than an operator takes
  SteppingJob stepping(settings);
  stepping.step();
  stepping.step();
  REQUIRE(stepping.job.evict(stepping.parameters[2]));
  stepping.read(0);
  CHECK(stepping.is_evicted(2));
  stepping.read(1);
  CHECK_FALSE(stepping.is_evicted(2));
}

TEST_CASE("nothing is prefetched where loads are waited for, or not at all") {
  MemoryTier::Settings settings = MemoryTier::beside(kNsPerByte);
  settings.runs_beside = false;
  SteppingJob stepping(settings);
  stepping.step();
  stepping.step();
  REQUIRE(stepping.job.evict(stepping.parameters[2]));
  stepping.step();
  CHECK(stepping.job.statistics().prefetches == 0);
  CHECK(stepping.job.statistics().fetches == 1);
}

TEST_CASE("nothing is evicted for what nobody has asked for yet") {
  SteppingJob stepping(MemoryTier::beside(kNsPerByte), 4096);
  RematFixture& job = stepping.job;
  stepping.step();
  stepping.step();
  REQUIRE(job.evict(stepping.parameters[2]));
  std::vector<Tensor> others;
  for (int k = 0; k < 4; ++k) others.push_back(job.input());  // 7 of 8 blocks are taken
  const uint64_t evictions = job.statistics().evictions;
  stepping.read(0);  // its result has the last
  CHECK(stepping.is_evicted(2));
  CHECK(job.statistics().evictions == evictions);
  stepping.read(1);
  stepping.read(2);
  CHECK(job.matches(stepping.parameters[2]));
  for (Tensor other : others) CHECK(job.matches(other));
  job.check();
}

TEST_CASE("a prefetch that fails leaves the error to the reader") {
  MemoryTier::Settings settings = MemoryTier::beside(kNsPerByte);
  settings.fail_load_at = 1;
  SteppingJob stepping(settings);
  stepping.step();
  stepping.step();
  REQUIRE(stepping.job.evict(stepping.parameters[3]));
  stepping.read(0);
  stepping.read(1);  // begins the load, in vain
  CHECK(stepping.is_evicted(3));
  stepping.read(2);
  stepping.read(3);
  CHECK(stepping.job.matches(stepping.parameters[3]));
  CHECK(stepping.job.statistics().prefetches <= 1);
  stepping.job.check();
}

// Steps of the same operators, or two in turn, on parameters and results, some of which are written
// in place, die early, or are left out of a step now and then, under a budget that is too small.
TEST_CASE("random steps that repeat themselves keep their contents") {
  uint64_t prefetches = 0, hits = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    MemoryTier::Settings settings = MemoryTier::beside(kNsPerByte);
    if ((random.below(4) == 0)) settings.refuse_every = 3;
    RematFixture job(5 * 4096, config_of((random.below(2) == 0) ? "planned" : "next-use"), nullptr,
                     std::make_unique<MemoryTier>(settings));
    std::vector<Tensor> parameters;
    for (int k = 0; k < 6; ++k) parameters.push_back(job.input(256));
    struct Call {
      size_t parameter;
      bool writes, keeps;
    };
    std::vector<std::vector<Call>> forms(1 + random.below(2));
    for (std::vector<Call>& calls : forms) {
      for (int k = 0; k < 16; ++k) {
        calls.push_back({random.below(6), (random.below(5) == 0), (random.below(2) == 0)});
      }
    }
    for (size_t step = 0; step < 6 * forms.size(); ++step) {
      const std::vector<Call>& calls = forms[step % forms.size()];
      const size_t left_out = (random.below(4) == 0) ? random.below(16) : 16;
      std::vector<Tensor> results;
      for (size_t k = 0; k < calls.size(); ++k) {
        if (k == left_out) continue;
        Tensor const parameter = parameters[calls[k].parameter];
        if (calls[k].writes) {
          job.update(parameter, results);
          continue;
        }
        Tensor const result = job.pure({parameter}, 128, 500);
        if (calls[k].keeps && results.size() < 4) {
          results.push_back(result);
        } else {
          job.drop(result);
        }
        if ((random.below(4) == 0)) (void)job.evict(parameters[random.below(6)]);
      }
      for (Tensor result : results) {
        CHECK(job.matches(result));
        job.drop(result);
      }
      if (random.below(6) == 0) {
        job.drop(std::exchange(parameters[random.below(6)], job.input(256)));
      }
      job.runtime.end_step();
      job.check();
    }
    for (Tensor parameter : parameters) CHECK(job.matches(parameter));
    prefetches += job.statistics().prefetches;
    hits += job.statistics().prefetch_hits;
  }
  CHECK(prefetches > 200);
  CHECK(hits > prefetches / 2);
}

}  // namespace
}  // namespace tidepool
