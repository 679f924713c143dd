#include "remat/plan/search/fallback.h"

#include <set>

#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::remat {
namespace {

// A simulation that succeeds under the limits given.
struct Scripted {
  std::set<size_t> good;
  std::vector<size_t> tried = {};

  SimulationResult operator()(size_t limit_bytes) {
    tried.push_back(limit_bytes);
    SimulationResult result;
    result.limit_bytes = limit_bytes;
    if (good.count(limit_bytes) == 0) result.status = SimulationStatus::kThrash;
    return result;
  }
};

TEST_CASE("a percent of the peak is a limit, and limits grow with the budget") {
  for (const size_t peak : {size_t{1000}, size_t{123'457}, size_t{1} << 43}) {
    for (size_t percent = 1; percent <= 100; ++percent) {
      const size_t limit = fallback_limit(peak, percent * kFallbackSteps / 100);
      CHECK(limit <= peak * percent / 100);
      CHECK(limit + 1 >= peak * percent / 100);
    }
    test::Random random(peak);
    for (int k = 0; k < 200; ++k) {
      const size_t budget = random.below(peak * 3);
      const size_t steps = fallback_steps(peak, budget);
      CHECK(fallback_limit(peak, steps) <= budget);
      CHECK(fallback_limit(peak, steps + 1) > budget);
    }
  }
}

TEST_CASE("the greatest limit that succeeds is taken, and none below the floor is tried") {
  const Trace trace = network_trace(397, 1000);  // a peak of 400 storages, a floor of 4
  REQUIRE(trace_peak(trace).peak_bytes == 400'000);
  REQUIRE(trace_peak(trace).floor_bytes == 4000);
  Scripted run{{50'000, 30'000}};
  CHECK(with_fallback(trace, 60'999, std::ref(run)).limit_bytes == 50'000);
  CHECK(run.tried.front() == 60'000);
  CHECK(run.tried.size() == 11);
  run.tried.clear();
  CHECK(with_fallback(trace, 50'000, std::ref(run)).limit_bytes == 50'000);
  CHECK(run.tried.size() == 1);
  run.tried.clear();
  const SimulationResult failed = with_fallback(trace, 20'000, std::ref(run));
  CHECK(failed.status == SimulationStatus::kThrash);
  CHECK(failed.limit_bytes == 20'000);
  CHECK(run.tried.back() == 4000);
}

TEST_CASE("whatever holes a policy has, what runs under a budget runs under every greater one") {
  const Trace trace = network_trace(397, 1000);
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    test::Random random(seed);
    Scripted run;
    for (size_t steps = 4; steps <= 400; ++steps) {
      if (random.chance(10)) run.good.insert(steps * 1000);
    }
    bool feasible = false;
    for (size_t budget = 2000; budget <= 450'000; budget += random.between(1, 3000)) {
      const bool ok = with_fallback(trace, budget, std::ref(run)).status == SimulationStatus::kOk;
      CHECK((ok || !feasible));
      feasible |= ok;
    }
    CHECK(feasible);
  }
}

}  // namespace
}  // namespace tidepool::remat
