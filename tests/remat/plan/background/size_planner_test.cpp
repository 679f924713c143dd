#include "remat/plan/background/size_planner.h"

#include <algorithm>
#include <vector>

#include "remat/plan/simulator.h"
#include "remat/simulate/job/step_trace.h"
#include "remat/trace/trace_peak.h"
#include "tests/support/catch.h"
#include "tests/support/random.h"

namespace tidepool::remat {
namespace {

// A step of a network whose layers make results of random multiples of `size`, and take random
// times for each byte; a backward pass reads them again. Its first result tells the size.
void add_step(TraceBuilder& builder, uint64_t parameter, size_t size) {
  constexpr size_t kLayers = 24;
  test::Random random(5);
  std::vector<size_t> bytes, site_cost;
  for (size_t k = 0; k < kLayers; ++k) {
    bytes.push_back(size * (1 + random.below(4)));
    site_cost.push_back(1 + random.below(9));
  }
  const auto call = [&](const char* name, size_t k, std::vector<uint64_t> reads, size_t made) {
    OperatorCallEntry entry;
    entry.name = name;
    entry.site = k;
    entry.reads = reads;
    entry.output_bytes = {&made, 1};
    entry.cost_ns = site_cost[k] * size / 16;
    return builder.call(entry);
  };
  std::vector<uint64_t> results{builder.root(size, RootKind::kInput)};
  for (size_t k = 0; k < kLayers; ++k) {
    results.push_back(call("forward", k, {results.back(), parameter}, bytes[k]));
  }
  uint64_t gradient = call("loss", 0, {results.back()}, bytes.back());
  for (size_t k = kLayers; k-- > 0;) {
    const uint64_t next =
        call("backward", k, {gradient, results[k + 1], results[k]}, k > 0 ? bytes[k - 1] : size);
    builder.release(gradient);
    builder.release(results[k + 1]);
    gradient = next;
  }
  builder.release(gradient);
  builder.release(results[0]);
  builder.step();
}

Trace sized_trace(std::span<const size_t> sizes) {
  TraceBuilder builder{TraceFacts()};
  const uint64_t parameter = builder.root(50'000, RootKind::kParameter);
  for (const size_t size : sizes) add_step(builder, parameter, size);
  return builder.take();
}

std::vector<size_t> random_sizes() {
  test::Random random(7);
  std::vector<size_t> sizes;
  for (size_t k = 0; k < 24; ++k) {
    // Twice in a row, as far as the job goes.
    sizes.push_back(k % 2 == 0 ? 160'000 + 64 * random.below(1000) : sizes.back());
  }
  return sizes;
}

SimulationConfig job_of(const Trace& trace, double ratio, size_t simulations) {
  SimulationConfig config;
  config.policy = "planned";
  config.planner.simulations = simulations;
  config.planner.perturbed = 0;
  config.budget_bytes =
      static_cast<size_t>(ratio * static_cast<double>(trace_peak(trace).peak_bytes));
  return config;
}

TEST_CASE("steps of new sizes follow plans that were found for others, if these are better") {
  const Trace trace = sized_trace(random_sizes());
  std::vector<uint64_t> ends;
  const SimulationResult with = simulate(trace, job_of(trace, 0.5, 12), nullptr, nullptr,
                                         [&](uint64_t ns) { ends.push_back(ns); });
  REQUIRE(with.status == SimulationStatus::kOk);
  CHECK(ends.size() == 24);
  const SimulationResult without = simulate(trace, job_of(trace, 0.5, 0));
  REQUIRE(without.status == SimulationStatus::kOk);
  CHECK(without.foreseen_tried == 0);
  // What is foreseen does not depend on plans.
  CHECK(with.foresight.steps == without.foresight.steps);
  CHECK(with.foresight.steps >= 8);
  CHECK(with.foresight.kept == with.foresight.steps);
  CHECK(with.foresight.most_bytes_error < 0.03);
  CHECK(with.foreseen_tried >= 4);
  CHECK(with.foreseen_plans >= 1);
  CHECK(with.foreseen_plans_taken_back <= with.foreseen_plans / 2);
  CHECK(with.compute_ns < without.compute_ns);
}

TEST_CASE("no plan is looked for where nothing has to be evicted, or there is one size") {
  const Trace trace = sized_trace(random_sizes());
  CHECK(simulate(trace, job_of(trace, 1.2, 12)).foreseen_tried == 0);
  const Trace same = sized_trace(std::vector<size_t>(6, 200'000));
  const SimulationResult result = simulate(same, job_of(same, 0.5, 10));
  CHECK(result.foresight.steps == 0);
  CHECK(result.foreseen_tried == 0);
}

TEST_CASE("the best of some plans is found for a step, and none where none is better") {
  const Trace trace = sized_trace(std::vector<size_t>{200'000});
  const Trace step = step_trace(trace, 0, trace.events.size());
  const SimulationConfig job = job_of(trace, 0.4, 12);
  const std::vector<RankedPlan> ranked = find_plans(step, job, job.planner);
  REQUIRE(!ranked.empty());
  REQUIRE(!ranked.front().plan.is_none());
  StepPlan bad;
  bad.policy = "size";
  const std::vector<StepPlan> plans{bad, ranked.front().plan};
  const BestPlan best = best_plan(step, job, job.planner, plans);
  REQUIRE(best.plan);
  CHECK(*best.plan == 1);
  CHECK(best.share > 0);
  CHECK(!best_plan(step, job, job.planner, {}).plan);
  CHECK(!best_plan(step, job, job.planner, {plans.data(), 1}).plan);
}

}  // namespace
}  // namespace tidepool::remat
