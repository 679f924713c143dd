#include "remat/plan/background/background_planner.h"

#include <cstdint>

#include "remat/simulate/job/simulated_job.h"
#include "remat/simulate/memory/memory_model.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

constexpr size_t kBytes = 100'000;

Trace network(uint64_t seed) { return network_trace(24, kBytes, 1000, seed); }

size_t budget_of(const Trace& trace, double ratio) {
  return static_cast<size_t>(static_cast<double>(trace_peak(trace).peak_bytes) * ratio);
}

RuntimeConfig planned() {
  RuntimeConfig config;
  config.policy = "planned";
  config.step_history_at_once = false;
  return config;
}

BackgroundPlannerConfig planner_of(const Trace& trace, size_t simulations) {
  BackgroundPlannerConfig config;
  config.facts = trace.facts;
  config.planner.simulations = simulations;
  config.search_niceness = 0;  // tests wait for searches, also on a busy machine
  return config;
}

// A process whose job does in each step what a trace says, all of it or its beginning. The search
// for a plan is waited for at each step's end.
struct PlannedJob {
  PlannedJob(const Trace& trace, double ratio, BackgroundPlannerConfig config,
             const TierModel& tier = {})
      : trace_(trace),
        memory(*make_memory(MemoryModel::kPages, budget_of(trace, ratio), 0)),
        allocator(*memory.space, mutex, memory.config),
        job(trace, allocator, memory.config.budget_bytes),
        runtime(allocator, job, planned(), make_tier(tier)),
        planner(runtime, allocator, config) {
    allocator.set_observer(&planner.allocator_observer());
    runtime.set_observer(&planner);
    job.set_runtime(&runtime);
  }
  ~PlannedJob() { runtime.set_observer(nullptr); }

  std::unique_ptr<remat::Tier> make_tier(const TierModel& model) {
    if (model.capacity_bytes == 0) return nullptr;
    auto tier = std::make_unique<SimulatedTier>(model, job.counts().compute_ns);
    job.set_tier(tier.get());
    return tier;
  }

  // Runs a step of so many events and drops what they made. Returns what it computed.
  uint64_t step(size_t events = SIZE_MAX) {
    const uint64_t computed = run(events);
    planner.wait();
    runtime.check_invariants();
    return computed;
  }
  uint64_t run(size_t events = SIZE_MAX) {
    const uint64_t before = job.counts().compute_ns;
    for (const TraceEvent& event : trace_.events) {
      if (events-- == 0) break;
      if (event.kind != EventKind::kStep) job.run(event);
    }
    const uint64_t computed = job.counts().compute_ns - before;
    job.drop_results();
    runtime.end_step();
    return computed;
  }
  // The last of so many.
  uint64_t steps(size_t count, size_t events = SIZE_MAX) {
    uint64_t last = 0;
    for (size_t k = 0; k < count; ++k) last = step(events);
    return last;
  }

  // Has its steps follow another plan than the one that was found, under which they replay more.
  void set_bad_plan() {
    StepPlan bad;
    bad.fingerprint = runtime.step_history().last_fingerprint();
    bad.policy = "size";
    const DeviceLock lock(runtime.mutex());
    runtime.set_plan(bad);
  }

  const Trace& trace_;
  SimulatedMemory memory;
  DeviceMutex mutex;
  BudgetedAllocator allocator;
  SimulatedJob job;
  Runtime runtime;
  BackgroundPlanner planner;
};

TEST_CASE("a job that repeats its steps under pressure gets a plan that makes them cheaper") {
  size_t better = 0, taken_back = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace trace = network(seed);
    PlannedJob job(trace, 0.5, planner_of(trace, 300));
    // The first has to evict, the next two are alike, the fourth is recorded.
    const uint64_t without = job.steps(4);
    CHECK(job.planner.statistics().searches == 1);
    CHECK(without > trace.baseline_ns());
    const uint64_t with = job.steps(4);
    // A plan may be better for other times, or for a process that has just begun, only.
    CHECK(with < without + without / 50);
    better += with < without;
    taken_back += job.planner.statistics().taken_back;
    CHECK(job.planner.statistics().searches == 1);
  }
  CHECK(taken_back <= 1);
  CHECK(better >= 3);
}

TEST_CASE("nothing is looked for where nothing is evicted") {
  const Trace trace = network(1);
  PlannedJob job(trace, 2, planner_of(trace, 20));
  job.steps(8);
  CHECK(job.planner.statistics().searches == 0);
  CHECK(job.runtime.step_history().last_fingerprint() == 0);
}

TEST_CASE("a plan whose steps replay more than those before it is taken back") {
  const Trace trace = network(2);
  PlannedJob job(trace, 0.5, planner_of(trace, 200));
  const uint64_t without = job.steps(4);
  REQUIRE(job.planner.statistics().plans == 1);
  job.set_bad_plan();
  REQUIRE(job.step() > without + without / 40);
  job.steps(3);
  CHECK(job.planner.statistics().taken_back == 1);
  CHECK(job.step() == without);
}

TEST_CASE("a plan that did well at first is taken back if later steps lose by it") {
  const Trace trace = network(2);
  PlannedJob job(trace, 0.5, planner_of(trace, 200));
  const uint64_t without = job.steps(4);
  job.steps(4);
  REQUIRE(job.planner.statistics().plans == 1);
  REQUIRE(job.planner.statistics().taken_back == 0);
  job.set_bad_plan();
  REQUIRE(job.step() > without + without / 40);
  for (int k = 0; k < 100 && job.planner.statistics().taken_back == 0; ++k) job.step();
  CHECK(job.planner.statistics().taken_back == 1);
  CHECK(job.step() == without);
}

TEST_CASE("a job whose steps keep changing is looked at ever less often") {
  const Trace trace = network(3);
  PlannedJob job(trace, 0.5, planner_of(trace, 20));
  for (size_t k = 0; k < 20; ++k) {
    job.steps(4);
    job.step(trace.events.size() / 2);
  }
  CHECK(job.planner.statistics().searches >= 1);
  CHECK(job.planner.statistics().searches <= 3);
}

TEST_CASE("a step that differs now and then costs no plan") {
  const Trace trace = network(3);
  PlannedJob job(trace, 0.5, planner_of(trace, 300));
  job.steps(8);
  REQUIRE(job.planner.statistics().plans == 1);
  const uint64_t with = job.step();
  job.step(trace.events.size() / 2);
  job.steps(1);  // comes after another step, and is not foreseen
  CHECK(job.step() < with + with / 50);
  CHECK(job.planner.statistics().searches == 1);
}

TEST_CASE("ends of steps without operators between them do not count") {
  const Trace trace = network(3);
  PlannedJob job(trace, 0.5, planner_of(trace, 300));
  for (size_t k = 0; k < 8; ++k) {
    job.step();
    job.runtime.end_step();
    job.planner.wait();
  }
  CHECK(job.planner.statistics().searches == 1);
  CHECK(job.planner.statistics().plans == 1);
}

TEST_CASE("a step that is too long for a search is left alone") {
  const Trace trace = network(4);
  BackgroundPlannerConfig config = planner_of(trace, 20);
  config.most_events = trace.events.size() / 2;
  PlannedJob job(trace, 0.5, config);
  job.steps(8);
  CHECK(job.planner.statistics().searches == 0);
}

TEST_CASE("a search ends with what it has found when its time is over") {
  const Trace trace = network(5);
  BackgroundPlannerConfig config = planner_of(trace, 1'000'000'000);
  config.planner.operators = UINT64_MAX;
  uint64_t now_ns = 0;
  config.search_clock = [&] { return now_ns += 1'000'000; };
  config.most_search_ns = 1'000'000'000;
  PlannedJob job(trace, 0.5, config);
  job.steps(4);
  CHECK(job.planner.statistics().searches == 1);
  CHECK(job.planner.statistics().plans == 1);
}

TEST_CASE("a job with two kinds of steps in turn gets a plan for each") {
  const Trace trace = network(3);
  PlannedJob job(trace, 0.5, planner_of(trace, 300));
  const size_t most = trace.events.size() * 4 / 5;
  uint64_t without = 0;
  for (int k = 0; k < 3; ++k) without = job.step() + job.step(most);
  for (int k = 0; k < 6; ++k) job.step(), job.step(most);
  CHECK(job.planner.statistics().searches == 2);
  CHECK(job.planner.statistics().plans >= 1);
  CHECK(job.planner.statistics().taken_back == 0);
  CHECK(job.step() + job.step(most) < without);
}

TEST_CASE("a search ends soon when it is told to, and there is no other") {
  const Trace trace = network(5);
  PlannedJob job(trace, 0.5, planner_of(trace, 1'000'000'000));
  for (size_t k = 0; k < 4; ++k) job.run();
  CHECK(job.planner.statistics().plans == 0);  // that takes hours
  job.planner.stop();
  CHECK(job.planner.statistics().plans == 0);
  for (size_t k = 0; k < 4; ++k) job.run();
  CHECK(job.planner.statistics().searches <= 1);
}

TEST_CASE("a forked child waits for no search, and begins none") {
  const Trace trace = network(6);
  PlannedJob job(trace, 0.5, planner_of(trace, 20));
  job.steps(3);
  job.runtime.become_forked_child();
  job.planner.wait();
  job.planner.stop();
  CHECK(job.planner.statistics().searches == 0);
}

// The report of the request at which the job fails under so small a budget.
OutOfMemoryReport failure_of(PlannedJob& job) {
  try {
    job.steps(4);
  } catch (const OutOfMemory& error) {
    return error.report();
  }
  FAIL("the job ran");
  return {};
}

TEST_CASE("a job that fails in its first step is told a budget that gets it past the request") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Trace trace = network(seed);
    PlannedJob job(trace, 0.1, planner_of(trace, 0));
    OutOfMemoryReport report = failure_of(job);
    const uint64_t reached = job.runtime.statistics().operators_seen;
    job.planner.find_budget_to_try(report);
    CHECK(!report.tried_steps);
    CHECK(report.budget_to_try_bytes > report.lower_bound_budget_bytes);
    CHECK(report.budget_to_try_bytes < budget_of(trace, 1));
    const double ratio =
        static_cast<double>(report.budget_to_try_bytes) / static_cast<double>(budget_of(trace, 1));
    PlannedJob next(trace, ratio, planner_of(trace, 0));
    try {
      next.steps(2);
    } catch (const OutOfMemory&) {
    }
    CHECK(next.runtime.statistics().operators_seen > reached);
    CHECK(report.format().find("A budget to try: at least ") != std::string::npos);
  }
}

TEST_CASE("a job whose first steps are known is told a budget under which they run") {
  const Trace trace = network(3);
  const size_t steps = GENERATE(1, 3);
  PlannedJob job(trace, 0.7, planner_of(trace, 0));
  job.steps(steps);
  OutOfMemoryReport report;
  report.budget_bytes = budget_of(trace, 0.1);
  job.planner.find_budget_to_try(report);
  CHECK(report.tried_steps);
  REQUIRE(report.budget_to_try_bytes > report.budget_bytes);
  CHECK(report.budget_to_try_bytes < budget_of(trace, 0.7));
  CHECK(report.format().find("In simulation the job's first steps run") != std::string::npos);
  const double ratio =
      static_cast<double>(report.budget_to_try_bytes) / static_cast<double>(budget_of(trace, 1));
  PlannedJob next(trace, ratio, planner_of(trace, 0));
  next.steps(2);
}

// An operator for each of twelve roots, whose result dies at once.
Trace roots_trace() {
  TraceBuilder builder{TraceFacts()};
  for (int k = 0; k < 12; ++k) builder.root(kBytes, RootKind::kParameter);
  for (uint64_t k = 0; k < 12; ++k) {
    const std::vector<uint64_t> reads = {k};
    const std::vector<size_t> outputs = {kBytes};
    builder.release(builder.call({"op", 1'000'000, reads, {}, outputs}));
  }
  builder.step();
  return builder.take();
}

TEST_CASE("a budget to try is one for a job that has the job's tier") {
  const Trace trace = roots_trace();
  const auto budget_to_try = [&](const TierModel& tier) {
    PlannedJob job(trace, 1.1, planner_of(trace, 0), tier);
    job.steps(2);
    OutOfMemoryReport report;
    report.budget_bytes = 2 * kBytes;
    job.planner.find_budget_to_try(report);
    return report.budget_to_try_bytes;
  };
  const size_t without = budget_to_try({});
  const size_t with = budget_to_try({.capacity_bytes = 5 * kBytes, .gb_per_second = 1000});
  CHECK(without > 12 * kBytes);
  CHECK(with > 6 * kBytes);
  CHECK(with < without - 4 * kBytes);
}

TEST_CASE("nothing is said of a job whose first step is too long to be remembered") {
  const Trace trace = network(1);
  BackgroundPlannerConfig config = planner_of(trace, 0);
  config.most_events = 2;
  PlannedJob job(trace, 0.1, config);
  OutOfMemoryReport report = failure_of(job);
  job.planner.find_budget_to_try(report);
  CHECK(report.budget_to_try_bytes == 0);
  CHECK(report.format().find("to try") == std::string::npos);
}

}  // namespace
}  // namespace tidepool::remat
