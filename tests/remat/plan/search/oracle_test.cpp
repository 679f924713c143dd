#include "remat/plan/search/oracle.h"

#include "remat/plan/search/planner.h"
#include "remat/plan/simulator.h"
#include "remat/simulate/job/step_trace.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/plan/job_of.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("who looks ahead knows the trace in the second iteration, also if the first failed") {
  size_t better = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Trace trace = network_trace(40, 1000, 1000, seed);
    SimulationConfig config = job_of(trace, 0.5);
    config.policy = "next-use";
    const SimulationResult first = simulate(trace, config);
    config.iterations = 2;
    const SimulationResult second = simulate_with_oracle(trace, config);
    REQUIRE(first.status == SimulationStatus::kOk);
    REQUIRE(second.status == SimulationStatus::kOk);
    if (second.overhead >= first.overhead) continue;
    ++better;
    // The first iteration is not allowed what it needs; the second is as if it had been.
    config.most_overhead = (first.overhead + second.overhead) / 2;
    const SimulationResult informed = simulate_with_oracle(trace, config);
    CHECK(informed.status == SimulationStatus::kOk);
    CHECK(informed.overhead == second.overhead);
    config.iterations = 1;
    CHECK(simulate(trace, config).status == SimulationStatus::kThrash);
  }
  CHECK(better > 5);
}

TEST_CASE("an oracle finds a smaller limit where the budget itself fails") {
  const Trace trace = network_trace(40, 1000);
  SimulationConfig config;
  config.memory = MemoryModel::kExact;
  config.iterations = 2;
  config.most_overhead = 1.6;
  bool feasible = false;
  for (size_t budget = 4300; budget <= 43'000; budget += 430) {
    config.budget_bytes = budget;
    const SimulationResult second = simulate_with_oracle(trace, config);
    const bool ok = second.status == SimulationStatus::kOk;
    CHECK((ok || !feasible));
    feasible |= ok;
    CHECK(second.iteration == 2);
    CHECK(second.limit_bytes <= budget);
  }
  CHECK(feasible);
}

TEST_CASE("an oracle has a plan from the second iteration on") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Trace trace = network_trace(24, 1000, 1000, seed);
    SimulationConfig config = job_of(trace, 0.5);
    config.iterations = 2;
    config.check_invariants = true;
    const double plain = simulate_with_oracle(trace, config).overhead;
    config.policy = "planned";
    config.planner.simulations = 300;
    const SimulationResult planned = simulate_with_oracle(trace, config);
    REQUIRE(planned.status == SimulationStatus::kOk);
    CHECK(planned.overhead < plain);
    CHECK(planned.overhead >= 1);
  }
}

// Candidates begin where a step without a plan has left things.
TEST_CASE("what a plan promises is what the second iteration has") {
  for (const MemoryModel memory : {MemoryModel::kArena, MemoryModel::kPages}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const Trace trace = network_trace(24, 100'000, 1000, seed);
      SimulationConfig config = job_of(trace, 0.6);
      config.memory = memory;
      config.granularity = 4096;
      config.iterations = 2;
      config.policy = "planned";
      config.planner.simulations = 60;
      config.planner.perturbed = 0;
      const SimulationResult result = simulate_with_oracle(trace, config);
      REQUIRE(result.status == SimulationStatus::kOk);
      // Fallbacks count in steps of the peak.
      SimulationConfig job = config;
      job.budget_bytes = result.limit_bytes;
      const Trace step = step_trace(trace, 0, trace.events.size());
      const auto plans = find_plans(step, job, config.planner);
      REQUIRE(!plans.empty());
      CHECK(plans[0].overhead == result.overhead);
    }
  }
}

// What a step copies ahead is what has left in the two before it.
TEST_CASE("beside a tier a plan promises what the fourth iteration has") {
  size_t settled_later = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace trace = network_trace(24, 100'000, 20'000, seed);
    SimulationConfig config = job_of(trace, 0.4);
    config.tier = {.capacity_bytes = size_t{1} << 30, .gb_per_second = 25, .runs_beside = true};
    config.policy = "planned";
    config.planner.simulations = 60;
    config.planner.perturbed = 0;
    const auto overhead_of = [&](size_t iterations) {
      config.iterations = iterations;
      const SimulationResult result = simulate_with_oracle(trace, config);
      REQUIRE(result.status == SimulationStatus::kOk);
      REQUIRE(result.limit_bytes == config.budget_bytes);
      return result.overhead;
    };
    const auto plans =
        find_plans(step_trace(trace, 0, trace.events.size()), config, config.planner);
    REQUIRE(!plans.empty());
    CHECK(plans[0].overhead == overhead_of(4));
    settled_later += overhead_of(2) != overhead_of(4);
  }
  CHECK(settled_later > 0);
}

// Each of them is simulated alone, so that what has left in the one before it has to be told.
TEST_CASE("plans for steps of two kinds in turn count on copies ahead, as the job has them") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace trace = two_networks_trace(24, 100'000, 20'000, seed);
    SimulationConfig config = job_of(trace, 0.7);
    config.tier = {.capacity_bytes = size_t{1} << 30, .gb_per_second = 55, .runs_beside = true};
    config.iterations = 5;
    config.policy = "planned";
    config.planner.perturbed = 0;
    const auto overhead_of = [&](size_t simulations) {
      config.planner.simulations = simulations;
      const SimulationResult result = simulate_with_oracle(trace, config);
      REQUIRE(result.status == SimulationStatus::kOk);
      return result.overhead;
    };
    CHECK(overhead_of(60) <= overhead_of(0));
  }
}

TEST_CASE("two kinds of steps in turn have a plan each from the second iteration on") {
  size_t better = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Trace trace = two_networks_trace(24, 1000, 1000, seed);
    SimulationConfig config = job_of(trace, 0.5);
    config.iterations = 2;
    config.check_invariants = true;
    config.planner.simulations = 300;
    const double plain = simulate_with_oracle(trace, config).overhead;
    config.policy = "planned";
    const SimulationResult planned = simulate_with_oracle(trace, config);
    REQUIRE(planned.status == SimulationStatus::kOk);
    CHECK(planned.overhead >= 1);
    CHECK(planned.overhead <= plain);
    better += planned.overhead < plain;
  }
  CHECK(better >= 6);
}

TEST_CASE("with plans, what runs under a budget runs under every greater one") {
  const Trace trace = network_trace(16, 1000, 1000, 3);
  const size_t peak = trace_peak(trace).peak_bytes;
  SimulationConfig config;
  config.policy = "planned";
  config.memory = MemoryModel::kArena;
  config.iterations = 2;
  config.planner.simulations = 12;
  config.planner.perturbed = 0;
  config.most_overhead = 2;
  bool feasible = false;
  size_t ran = 0;
  for (size_t percent = 15; percent <= 100; percent += 5) {
    config.budget_bytes = peak * percent / 100;
    const bool ok = simulate_with_oracle(trace, config).status == SimulationStatus::kOk;
    CHECK((ok || !feasible));
    feasible |= ok;
    ran += ok;
  }
  CHECK(ran > 3);
}

}  // namespace
}  // namespace tidepool::remat
