#include "remat/plan/follow/trace_plans.h"

#include "remat/plan/follow/step_digest.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("each kind of step is planned for once") {
  CHECK(distinct_steps(network_trace(4, 1000)).size() == 1);
  const Trace trace = two_networks_trace(8, 1000, 10, 2);
  const std::vector<Trace> steps = distinct_steps(trace);
  REQUIRE(steps.size() == 2);
  CHECK(step_digest(steps[0], 1) != step_digest(steps[1], 1));
}

TEST_CASE("a step that runs under no plan is left out") {
  const Trace trace = network_trace(8, 1000);
  SimulationConfig config;
  config.memory = MemoryModel::kExact;
  config.planner.simulations = 10;
  config.budget_bytes = 1500;
  TracePlans plans = find_trace_plans(trace, config);
  CHECK(plans.file.steps.empty());
  CHECK(plans.failed == 1);
  config.budget_bytes = trace_peak(trace).peak_bytes * 7 / 10;
  plans = find_trace_plans(trace, config);
  REQUIRE(plans.file.steps.size() == 1);
  CHECK(plans.failed == 0);
  CHECK(plans.overheads[0] > 1);
  CHECK(plans.file.steps[0].operators == trace.operators.size());
}

}  // namespace
}  // namespace tidepool::remat
