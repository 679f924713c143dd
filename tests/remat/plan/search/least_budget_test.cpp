#include "remat/plan/search/least_budget.h"

#include "remat/plan/simulator.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

SimulationConfig pages() {
  SimulationConfig job;
  job.granularity = 4096;
  return job;
}

bool runs(const Trace& trace, size_t budget_bytes) {
  SimulationConfig job = pages();
  job.budget_bytes = budget_bytes;
  return simulate(trace, job).status == SimulationStatus::kOk;
}

TEST_CASE("the least budget found runs, and one a little smaller does not") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace trace = network_trace(24, 100'000, 1000, seed);
    const size_t peak = trace_peak(trace).peak_bytes;
    const auto found = least_budget(trace, pages(), 1);
    REQUIRE(found);
    CHECK(*found < peak);
    CHECK(*found >= trace_peak(trace).floor_bytes);
    CHECK(runs(trace, *found));
    // Or it does with the recorded times only.
    size_t fails = 0;
    for (size_t k = 2; k <= 10; ++k) fails += !runs(trace, *found - *found * k / 100);
    CHECK(fails >= 7);
    CHECK(least_budget(trace, pages(), 1) == found);
  }
}

TEST_CASE("no budget below the given one is considered") {
  const Trace trace = network_trace(24, 100'000);
  const size_t peak = trace_peak(trace).peak_bytes;
  for (const size_t least : {peak / 2, peak, peak * 2}) {
    const auto found = least_budget(trace, pages(), least);
    REQUIRE(found);
    CHECK(*found >= least);
    CHECK(*found <= std::max(least, peak + peak / 2) + least / 100);
  }
}

TEST_CASE("a search that is told to stop gives what it has found, if anything") {
  const Trace trace = network_trace(24, 100'000);
  StopToken stop;
  SimulationConfig job = pages();
  job.stop = &stop;
  uint64_t now = 0;
  // Enough for some budgets, but not for the least.
  stop.set_limit([&now] { return ++now; }, 8);
  const auto found = least_budget(trace, job, 1);
  REQUIRE(found);
  CHECK(*found > *least_budget(trace, pages(), 1));
  CHECK(runs(trace, *found));
  stop.request_stop();
  CHECK(!least_budget(trace, job, 1));
}

TEST_CASE("the first guess saves a quarter of the simulations") {
  uint64_t looks = 0;  // at the clock: one for so many events
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace trace = network_trace(200, 100'000, 1000, seed);
    StopToken stop;
    stop.set_limit([&looks] { return ++looks; }, UINT64_MAX / 2);
    SimulationConfig job = pages();
    job.most_overhead = 20;
    job.stop = &stop;
    REQUIRE(least_budget(trace, job, 1));
  }
  CHECK(looks < 1750);  // 2025 where the first guess is half of the peak
}

}  // namespace
}  // namespace tidepool::remat
