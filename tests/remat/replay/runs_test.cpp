#include "remat/replay/runs.h"

#include <stdexcept>

#include "remat/trace/trace_writer.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

ReplayOptions grid_of(std::vector<double> ratios) {
  ReplayOptions options;
  options.policies = {"needed-cost", "coop"};
  options.ratios = std::move(ratios);
  options.memory = MemoryModel::kExact;
  return options;
}

TEST_CASE("there is a run for each policy and budget") {
  const Trace trace = network_trace(20, 1000);
  const std::vector<Run> runs = plan_runs(grid_of({0.5, 0.7}), trace);
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].policy == "needed-cost");
  CHECK(runs[1].ratio == 0.7);
  CHECK(runs[1].budget_bytes == 16100);  // of 23 storages of 1000
  CHECK(runs[2].policy == "coop");
  CHECK(runs[2].trace == "network");

  ReplayOptions absolute;
  absolute.budget_bytes = 11500;
  const std::vector<Run> one = plan_runs(absolute, trace);
  REQUIRE(one.size() == 1);
  CHECK(one[0].ratio == 0.5);
}

TEST_CASE("the least budgets lie between the bound and the peak") {
  const Trace trace = network_trace(40, 1000);
  ReplayOptions options;
  options.policies = {"needed-cost", "coop"};
  options.memory = MemoryModel::kExact;
  const std::vector<LeastBudget> found = find_least_budgets(options, trace);
  REQUIRE(found.size() == 2);
  CHECK(found[1].policy == "coop");
  for (const LeastBudget& each : found) {
    REQUIRE(each.simulated_bytes);
    CHECK(*each.simulated_bytes >= each.peak.floor_bytes);
    CHECK(*each.simulated_bytes < each.peak.peak_bytes);
    CHECK(each.chain.bytes >= each.peak.floor_bytes);
    CHECK(each.chain.bytes < each.peak.peak_bytes / 2);
  }
}

TEST_CASE("answers do not depend on how many are worked out at a time") {
  const Trace trace = network_trace(40, 1000);
  ReplayOptions options = grid_of({0.3, 0.4, 0.5, 0.6, 0.7, 1.0});
  std::vector<Run> alone = plan_runs(options, trace);
  std::vector<Run> together = alone;
  std::vector<size_t> seen;
  options.jobs = 1;
  execute_runs(options, trace, alone, [&](size_t done) { seen.push_back(done); });
  CHECK(seen.size() == alone.size());
  CHECK(seen.back() == alone.size());
  options.jobs = 4;
  size_t most = 0;
  execute_runs(options, trace, together, [&](size_t done) { most = std::max(most, done); });
  CHECK(most == together.size());
  for (size_t k = 0; k < alone.size(); ++k) {
    CHECK(alone[k].result.overhead == together[k].result.overhead);
    CHECK(alone[k].result.evictions == together[k].result.evictions);
  }
  CHECK(alone[5].result.overhead == 1);
  CHECK(alone[0].result.overhead > alone[4].result.overhead);
}

TEST_CASE("what one run throws comes out, once all are done") {
  const Trace trace = network_trace(5, 1000);
  ReplayOptions options = grid_of({0.5, 0.6, 0.7});
  std::vector<Run> runs = plan_runs(options, trace);
  runs[1].policy = "nobody's";
  options.jobs = 2;
  CHECK_THROWS_AS(execute_runs(options, trace, runs, [](size_t) {}), std::invalid_argument);
}

TEST_CASE("logs of DTR need all that lives at the end, traces do not") {
  const Trace trace = trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"op":"a","ns":5,"out":[[0,10]]}
{"op":"b","ns":5,"out":[[1,10]]}
{"end":2}
)");
  ReplayOptions options = grid_of({0.5});
  std::vector<Run> runs = plan_runs(options, trace);
  execute_runs(options, trace, runs, [](size_t) {});
  CHECK(runs[0].result.status == SimulationStatus::kOk);
  options.format = TraceFormat::kDtr;
  execute_runs(options, trace, runs, [](size_t) {});
  CHECK(runs[0].result.status == SimulationStatus::kOutOfMemory);
  options.end_resident = false;
  execute_runs(options, trace, runs, [](size_t) {});
  CHECK(runs[0].result.status == SimulationStatus::kOk);
}

TEST_CASE("a trace is read in the format that is named, with the prices that are given") {
  const TemporaryFile file("one.jsonl.gz");
  write_trace(network_trace(3, 100), file.path());
  ReplayOptions options;
  CHECK(load_trace(options, file.path()).operators.size() == 7);
  options.map_ns = 5;
  options.drain_ns = 6;
  options.copy_bytes_per_ns = 7;
  const TraceFacts facts = load_trace(options, file.path()).facts;
  CHECK(facts.map_ns == 5);
  CHECK(facts.drain_ns == 6);
  CHECK(facts.copy_bytes_per_ns == 7);
  options.format = TraceFormat::kDtr;
  CHECK_THROWS_AS(load_trace(options, file.path()), TraceError);
}

}  // namespace
}  // namespace tidepool::remat
