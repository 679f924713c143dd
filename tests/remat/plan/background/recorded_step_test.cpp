#include "remat/plan/background/recorded_step.h"

#include <vector>

#include "remat/lineage/lineage.h"
#include "remat/plan/search/planner.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

const RecordType kType{"make"};

// w and x are roots; 0: a = make(w, x), with a workspace  1: b = make(a); then x dies.
RecordedStep recorded() {
  RecordedStep step;
  step.events = std::make_unique<JobEvents>();
  JobEvents& job = *step.events;
  const auto add = [&](EventKind kind) -> JobEvent& {
    JobEvent& event = job.events.emplace_back();
    event.kind = kind;
    event.type = &kType;
    return event;
  };
  add(EventKind::kRoot).bytes = 5000;
  add(EventKind::kRoot).bytes = 1000;
  JobEvent& first = add(EventKind::kOperator);
  first.operands = 2, first.outputs = 1, first.cost_ns = 10, first.bytes = 700;
  job.operands = {{0, Access::kRead}, {1, Access::kRead}, {2, Access::kRead}};
  JobEvent& second = add(EventKind::kOperator);
  second.operands = 1, second.outputs = 1, second.cost_ns = 20;
  job.output_bytes = {4000, 2000};
  add(EventKind::kRelease).storage = 1;
  add(EventKind::kStep);
  step.outputs = {2, 3};
  step.by_number = {1, 0, 2, 3};  // the step met x first
  step.positions = {0, 1};
  return step;
}

// The step, with x of another size.
StepList foreseen() {
  StepList list;
  list.entries = {{1, 0, 0, 2}, {1, 100, 2, 1}};
  list.operands = {0, 1, 2};
  list.bytes = {3000, 5000, 12'000, 6000};
  list.outputs = {{0, 2, 12'000}, {1, 3, 6000}};
  list.length_ns = 350;
  return list;
}

TEST_CASE("a foreseen step has the recorded one's events with other sizes and times") {
  const RecordedStep step = recorded();
  const Trace before = step.trace(TraceFacts());
  const Trace trace = foreseen_trace(step, foreseen(), TraceFacts());
  REQUIRE(trace.events.size() == before.events.size());
  std::vector<size_t> bytes;
  for (const TraceStorage& storage : trace.storages) bytes.push_back(storage.bytes);
  CHECK(bytes == std::vector<size_t>{5000, 3000, 12'000, 6000});
  CHECK(trace.operators[0].cost_ns == 100);
  CHECK(trace.operators[1].cost_ns == 250);
  // As much larger as what the operator has: 20 000 bytes in place of 10 000.
  CHECK(trace.operators[0].workspace_bytes == 1400);
  CHECK(trace.operators[1].workspace_bytes == 0);
  CHECK(before.operators[0].workspace_bytes == 700);
}

TEST_CASE("what is not foreseen stays as it was recorded") {
  RecordedStep step = recorded();
  step.by_number = {1, kNoStorage, 2};
  step.positions = {0, ObservedCall::kNoPosition};
  const Trace trace = foreseen_trace(step, foreseen(), TraceFacts());
  CHECK(trace.storages[0].bytes == 5000);
  CHECK(trace.storages[3].bytes == 2000);
  CHECK(trace.operators[1].cost_ns == 20);
}

TEST_CASE("a step is simulated without the memory that no storage of it has") {
  RecordedStep step = recorded();
  step.limit_bytes = 100'000;
  step.allocated_bytes = 30'000;
  step.resident_bytes = 10'000;
  CHECK(step.simulated_as({}).budget_bytes == 80'000);
  SimulationConfig job;
  job.budget_bytes = 50'000;
  CHECK(step.simulated_as(job).budget_bytes == 30'000);
  CHECK(step.bookkeeping_bytes() > 0);
}

TEST_CASE("a step is simulated with the tier that the job has") {
  RecordedStep step = recorded();
  step.tier = {.capacity_bytes = 1000, .gb_per_second = 12, .runs_beside = true};
  for (const bool roots : {false, true}) {
    step.offloads_roots = roots;
    const SimulationConfig job = step.simulated_as({});
    CHECK(job.tier.capacity_bytes == 1000);
    CHECK(job.tier.gb_per_second == 12);
    CHECK(job.tier.runs_beside);
    CHECK(job.offloads_roots == roots);
  }
}

TEST_CASE("a plan for the trace is one for the job by its own numbers of outputs") {
  RecordedStep step = recorded();
  step.outputs = {kNoStorage, 2, 3};
  StepPlan plan;
  plan.weights = {2, 4};
  CHECK(step.for_job(plan, step.trace(TraceFacts())).weights == std::vector<float>{1, 2, 4});
}

}  // namespace
}  // namespace tidepool::remat
