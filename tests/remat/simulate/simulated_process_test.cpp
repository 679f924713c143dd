#include "remat/simulate/simulated_process.h"

#include <numeric>

#include "allocator/space/private_host_space.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

SimulationConfig tight(size_t budget_bytes) {
  SimulationConfig config;
  config.memory = MemoryModel::kExact;
  config.budget_bytes = budget_bytes;
  config.check_invariants = true;
  return config;
}

TEST_CASE("a process runs the trace as often as asked, and counts what it evicts") {
  const Trace trace = network_trace(20, 1000);
  const SimulationConfig config = tight(12'000);
  const auto process = SimulatedProcess::make(trace, config);
  uint64_t evictions = 0;
  for (int iteration = 1; iteration <= 3; ++iteration) {
    std::vector<size_t> ends;
    SimulationResult result;
    REQUIRE(process->run_iteration(&result, [&](size_t events) { ends.push_back(events); }));
    process->report(&result);
    CHECK(ends == std::vector<size_t>{trace.events.size()});
    CHECK(result.overhead > 1);
    evictions += result.evictions;
    const auto counted = process->evictions();
    CHECK(std::accumulate(counted.begin(), counted.end(), uint64_t{0}) == evictions);
    // needed-cost does not look ahead
    CHECK(process->runtime().step_history().last_fingerprint() == 0);
  }
}

TEST_CASE("a process that cannot go on says why") {
  const Trace trace = network_trace(20, 1000);
  const SimulationConfig config = tight(3000);
  SimulationResult result;
  CHECK(!SimulatedProcess::make(trace, config)->run_iteration(&result));
  CHECK(result.status == SimulationStatus::kOutOfMemory);
  CHECK(!result.reason.empty());
  SimulationConfig none = config;
  none.memory = MemoryModel::kPages;
  none.budget_bytes = 100;
  CHECK(SimulatedProcess::make(trace, none) == nullptr);
}

TEST_CASE("what one process has learnt of its step, another knows") {
  const Trace trace = network_trace(20, 1000);
  SimulationConfig config = tight(1 << 20);
  config.policy = "next-use";
  const auto teacher = SimulatedProcess::make(trace, config);
  SimulationResult result;
  REQUIRE(teacher->run_iteration(&result));
  const auto other = SimulatedProcess::make(trace, config);
  other->learn(teacher->runtime().step_history());
  CHECK(other->runtime().step_history().step() == 2);
  REQUIRE(other->run_iteration(&result));
  CHECK(other->runtime().step_history().repeated());
}

TEST_CASE("on a CPU pages are those that jobs have, unless told otherwise") {
  const Trace trace = network_trace(20, 1000);
  SimulationConfig config = tight(PrivateHostSpace::kGranularity - 1);
  config.memory = MemoryModel::kPages;
  CHECK(SimulatedProcess::make(trace, config) == nullptr);
  config.budget_bytes = PrivateHostSpace::kGranularity;
  CHECK(SimulatedProcess::make(trace, config) != nullptr);
  config.granularity = 2 * PrivateHostSpace::kGranularity;
  CHECK(SimulatedProcess::make(trace, config) == nullptr);
}

}  // namespace
}  // namespace tidepool::remat
