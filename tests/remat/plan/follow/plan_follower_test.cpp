#include "remat/plan/follow/plan_follower.h"

#include <memory>

#include "remat/plan/follow/trace_plans.h"
#include "remat/plan/simulator.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

SimulationConfig half_of(const Trace& trace, uint32_t iterations) {
  SimulationConfig config;
  config.policy = "planned";
  config.budget_bytes = trace_peak(trace).peak_bytes / 2;
  config.iterations = iterations;
  config.check_invariants = true;
  config.planner.simulations = 40;
  return config;
}

std::shared_ptr<const PlanFile> plans_for(const Trace& trace) {
  return std::make_shared<const PlanFile>(find_trace_plans(trace, half_of(trace, 1)).file);
}

TEST_CASE("a job follows a file's plan from its second step on") {
  size_t better = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Trace trace = network_trace(24, 100'000, 1000, seed);
    SimulationConfig config = half_of(trace, 2);
    const TracePlans plans = find_trace_plans(trace, config);
    REQUIRE(plans.overheads.size() == 1);
    const auto file = std::make_shared<const PlanFile>(plans.file);
    const SimulationResult with = simulate(trace, config, nullptr, file);
    config.planner.simulations = 0;
    const SimulationResult without = simulate(trace, config);
    REQUIRE(with.status == SimulationStatus::kOk);
    CHECK(with.plans_found == 1);
    CHECK(with.overhead < without.overhead * 1.02);
    better += with.overhead < without.overhead;
  }
  CHECK(better >= 2);
}

TEST_CASE("steps of several kinds find their plans") {
  const Trace trace = two_networks_trace(16, 100'000, 1000, 3);
  const auto plans = plans_for(trace);
  REQUIRE(plans->steps.size() == 2);
  const SimulationResult result = simulate(trace, half_of(trace, 3), nullptr, plans);
  CHECK(result.status == SimulationStatus::kOk);
  CHECK(result.plans_found == 2);
}

TEST_CASE("the plan of another job changes nothing") {
  const Trace trace = network_trace(24, 100'000, 1000, 1);
  SimulationConfig config = half_of(trace, 3);
  config.planner.simulations = 0;
  const SimulationResult without = simulate(trace, config);
  for (const Trace& other : {network_trace(24, 100'064, 1000, 1), network_trace(23, 100'000)}) {
    const SimulationResult result = simulate(trace, config, nullptr, plans_for(other));
    CHECK(result.plans_found == 0);
    CHECK(result.overhead == without.overhead);
    CHECK(result.evictions == without.evictions);
  }
}

TEST_CASE("a plan of gaps is followed: what it drops leaves, and nothing else") {
  const Trace trace = network_trace(24, 100'000);
  PlanFile file = *plans_for(trace);
  StepPlan& plan = file.steps[0].plan;
  plan = {};
  plan.gaps.emplace();
  // Of the layers' results, which are read by the next layer and then by their gradient, every
  // second one is dropped in between.
  for (uint32_t layer = 0; layer < 24; layer += 2) plan.gaps->push_back({layer, 1, false});
  SimulationConfig config = half_of(trace, 2);
  config.memory = MemoryModel::kExact;
  config.budget_bytes = trace_peak(trace).peak_bytes * 7 / 10;
  const SimulationResult result =
      simulate(trace, config, nullptr, std::make_shared<const PlanFile>(file));
  REQUIRE(result.status == SimulationStatus::kOk);
  CHECK(result.plans_found == 1);
  CHECK(result.evictions <= 12);
  CHECK(result.evictions > 0);
}

}  // namespace
}  // namespace tidepool::remat
