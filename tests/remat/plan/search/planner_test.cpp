#include "remat/plan/search/planner.h"

#include <cmath>
#include <utility>

#include "remat/plan/simulator.h"
#include "remat/simulate/job/step_trace.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/plan/job_of.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

Trace step_of(uint64_t seed) {
  const Trace trace = network_trace(24, 1000, 1000, seed);
  return step_trace(trace, 0, trace.events.size());
}

TEST_CASE("plans come the best first, and the climb beats all policies") {
  size_t better = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace step = step_of(seed);
    PlannerConfig config;
    config.simulations = 300;
    const auto plans = find_plans(step, job_of(step, 0.5), config);
    REQUIRE(plans.size() > 2);
    for (size_t k = 1; k < plans.size(); ++k) CHECK(plans[k - 1].score <= plans[k].score);
    CHECK(plans[0].score > 1);
    better += plans[0].score < plans[1].score - 1e-9;
    for (size_t k = 1; k < plans.size(); ++k) CHECK(plans[k].plan.weights.empty());
    // The same step gives the same plans.
    CHECK(find_plans(step, job_of(step, 0.5), config)[0].plan.weights == plans[0].plan.weights);
  }
  CHECK(better >= 5);
}

TEST_CASE("a tier makes no plan worse than it is without one") {
  const double gb_per_second = GENERATE(1.0, 1000.0);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace step = step_of(seed);
    SimulationConfig job = job_of(step, 0.4);
    PlannerConfig config;
    config.simulations = 60;
    const auto without = find_plans(step, job, config);
    REQUIRE(!without.empty());
    job.tier = {
        .capacity_bytes = size_t{1} << 30, .gb_per_second = gb_per_second, .runs_beside = true};
    config.simulations = 120;
    const auto beside = find_plans(step, job, config);
    REQUIRE(!beside.empty());
    CHECK(beside[0].score <= without[0].score + 1e-9);
  }
}

TEST_CASE("searches for room count as time of the step") {
  const Trace step = step_of(3);
  PlannerConfig config;
  config.simulations = 1;
  config.price_ns = 0;
  const auto without = find_plans(step, job_of(step, 0.5), config);
  config.price_ns = 1e6;
  const auto with = find_plans(step, job_of(step, 0.5), config);
  REQUIRE(!with.empty());
  REQUIRE(!without.empty());
  size_t dearer = 0;
  for (const RankedPlan& plan : with) {
    for (const RankedPlan& other : without) {
      const bool same =
          plan.plan.policy == other.plan.policy && plan.plan.use_share == other.plan.use_share;
      if (same && plan.score > other.score + 1) ++dearer;
    }
  }
  CHECK(dearer == with.size());
  CHECK(with[0].overhead >= without[0].overhead);
}

TEST_CASE("a search that may simulate few operators tries few policies, but one at least") {
  const Trace step = step_of(1);
  PlannerConfig config;
  config.operators = 1;
  const auto few = find_plans(step, job_of(step, 0.5), config);
  REQUIRE(few.size() == 1);
  CHECK(few[0].plan.policy == "needed-cost");
  CHECK(few[0].plan.weights.empty());
  const auto all = find_plans(step, job_of(step, 0.5), {});
  CHECK(all.size() > 5);
  CHECK(all[0].score < few[0].score);
}

TEST_CASE("a search whose time is over ends with the best that it has found") {
  const Trace step = step_of(2);
  PlannerConfig config;
  config.simulations = 1'000'000'000;
  config.operators = UINT64_MAX;
  SimulationConfig job = job_of(step, 0.5);
  StopToken stop;
  uint64_t now_ns = 0;
  stop.set_limit([&] { return ++now_ns; }, 1000);
  job.stop = &stop;
  const auto plans = find_plans(step, job, config);
  REQUIRE(plans.size() > 2);
  CHECK(!plans[0].plan.weights.empty());
  CHECK(now_ns == 1001);
}

// Windows pay with all that lies between; pages with nothing, where maps are free.
TEST_CASE("a plan says whether pages are better than windows") {
  size_t preferred = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace step = network_trace(40, 100'000, 1000, seed);
    SimulationConfig job = job_of(step, 0.6);
    job.memory = MemoryModel::kPages;
    job.granularity = 4096;
    PlannerConfig config;
    config.simulations = 1;
    config.perturbed = 0;
    const auto plans = find_plans(step, job, config);
    REQUIRE(!plans.empty());
    preferred += plans[0].plan.preference == Preference::kPages;
    job.memory = MemoryModel::kArena;
    for (const RankedPlan& plan : find_plans(step, job, config)) {
      CHECK(plan.plan.preference == Preference::kCheapest);
    }
  }
  CHECK(preferred >= 1);
}

// Pages of about the size of blocks, and few of them: the step fails without a plan.
TEST_CASE("where little is left contents move, and a plan for the recorded times will do") {
  constexpr std::pair<uint64_t, double> kTight[] = {{4, 0.136}, {8, 0.148}};
  size_t moving = 0;
  for (const auto& [seed, ratio] : kTight) {
    CAPTURE(seed);
    const Trace step = network_trace(40, 100'000, 1000, seed);
    SimulationConfig job = job_of(step, ratio);
    job.memory = MemoryModel::kPages;
    job.granularity = 64 << 10;
    CHECK(simulate(step, job).status != SimulationStatus::kOk);
    PlannerConfig config;
    config.simulations = 1;
    CHECK(find_plans(step, job, config).empty());
    config.recorded_times_suffice = true;
    const auto plans = find_plans(step, job, config);
    REQUIRE(!plans.empty());
    moving += plans[0].plan.preference == Preference::kMoves;
  }
  CHECK(moving >= 1);
}

TEST_CASE("nothing is planned where nothing runs") {
  const Trace step = step_of(1);
  SimulationConfig job = job_of(step, 0.5);
  job.budget_bytes = trace_peak(step).floor_bytes - 1;
  CHECK(find_plans(step, job, {}).empty());
}

TEST_CASE("other times are other by as much as asked, and the rest is the same") {
  Trace trace = network_trace(500, 1000, 1'000'000);
  const Trace other = with_other_times(trace, 0.2, 7);
  double sum = 0;
  double squares = 0;
  for (size_t k = 0; k < trace.operators.size(); ++k) {
    const double log = std::log(static_cast<double>(other.operators[k].cost_ns) /
                                static_cast<double>(trace.operators[k].cost_ns));
    sum += log;
    squares += log * log;
    trace.operators[k].cost_ns = other.operators[k].cost_ns;
  }
  const auto count = static_cast<double>(trace.operators.size());
  CHECK(std::abs(sum / count) < 0.03);
  CHECK(std::sqrt(squares / count) > 0.17);
  CHECK(std::sqrt(squares / count) < 0.23);
  CHECK(difference(trace, other).empty());
}

}  // namespace
}  // namespace tidepool::remat
