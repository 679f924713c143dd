#include "remat/plan/simulator.h"

#include <thread>

#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr MemoryModel kModels[] = {MemoryModel::kExact, MemoryModel::kArena, MemoryModel::kPages};

SimulationConfig config_of(MemoryModel memory, size_t budget_bytes) {
  SimulationConfig config;
  config.memory = memory;
  config.budget_bytes = budget_bytes;
  config.check_invariants = true;
  return config;
}

// With a budget of 30: storage 1 has to go for 3, and back for 4.
const char* const kFive = R"({"tidepool_trace":1,"name":"five","device":"cpu"}
{"root":0,"bytes":10}
{"op":"a","ns":5,"in":[0],"out":[[1,10]]}
{"op":"b","ns":7,"in":[0],"out":[[2,10]]}
{"op":"c","ns":3,"in":[2],"out":[[3,10]]}
{"op":"d","ns":2,"in":[1],"out":[[4,10]]}
{"end":5}
)";

TEST_CASE("with an ample budget nothing is evicted, and the peak is that of a plain count") {
  const Trace traces[] = {network_trace(30, 100'000), random_trace(3, 800), random_trace(4, 800)};
  for (const Trace& trace : traces) {
    const TracePeak peak = trace_peak(trace);
    for (const MemoryModel model : kModels) {
      const size_t room = model == MemoryModel::kExact ? 0 : peak.peak_bytes / 4 + (1 << 20);
      const SimulationResult result = simulate(trace, config_of(model, peak.peak_bytes + room));
      INFO(trace.facts.name << " " << name_of(model) << " " << result.reason);
      CHECK(result.status == SimulationStatus::kOk);
      CHECK(result.overhead == 1);
      CHECK(result.evictions == 0);
      CHECK(result.peak_bytes == peak.peak_bytes);
      CHECK(result.compute_ns == trace.baseline_ns());
    }
  }
}

TEST_CASE("replays cost what the operators cost") {
  const Trace trace = trace_of(kFive);
  const SimulationResult result = simulate(trace, config_of(MemoryModel::kExact, 30));
  CHECK(result.status == SimulationStatus::kOk);
  // 1 goes for 3; another for 1 on its way back; and one for 4.
  CHECK(result.evictions == 3);
  CHECK(result.evicted_bytes == 30);
  CHECK(result.operators_replayed == 1);
  CHECK(result.compute_ns == 5 + 7 + 3 + 2 + 5);
  CHECK(result.overhead == 22.0 / 17);
  CHECK(result.peak_bytes == 30);
  CHECK(result.longest_plan == 1);
  CHECK(result.fragmentation == 0);  // all is in use whenever something was evicted
}

TEST_CASE(
    "over a link that is mostly idle, what leaves in steps that repeat themselves is copied") {
  const Trace trace = network_trace(24, 100'000, 20'000, 1);
  SimulationConfig config = config_of(MemoryModel::kExact, trace_peak(trace).peak_bytes * 2 / 5);
  config.policy = "planned";
  config.planner.simulations = 0;
  const auto replayed = [&](double gb_per_second, size_t iterations) {
    config.tier = {size_t{1} << 30, gb_per_second, true};
    config.iterations = iterations;
    const SimulationResult result = simulate(trace, config);
    REQUIRE(result.status == SimulationStatus::kOk);
    return result.operators_replayed;
  };
  CHECK(replayed(450, 2) > 0);
  CHECK(replayed(450, 8) < replayed(450, 2) / 2);
  CHECK(replayed(1, 8) > replayed(1, 2) / 2);
}

TEST_CASE("all that lives may have to be there at the end") {
  const Trace trace = trace_of(kFive);
  SimulationConfig config = config_of(MemoryModel::kExact, 49);
  CHECK(simulate(trace, config).status == SimulationStatus::kOk);
  config.end_resident = true;
  const SimulationResult short_of_one = simulate(trace, config);
  CHECK(short_of_one.status == SimulationStatus::kOutOfMemory);
  CHECK_THAT(short_of_one.reason, ContainsSubstring("out of memory"));
  config.budget_bytes = 50;
  CHECK(simulate(trace, config).overhead == 1);
  // What died need not come back.
  const Trace network = network_trace(10, 100);
  config.budget_bytes = 600;
  const SimulationResult result = simulate(network, config);
  CHECK(result.status == SimulationStatus::kOk);
  CHECK(result.operators_replayed > 0);
}

TEST_CASE("a budget below what one operator needs is out of memory in any model") {
  const Trace trace = network_trace(10, 1 << 20);
  for (const MemoryModel model : kModels) {
    const SimulationResult result = simulate(trace, config_of(model, (3 << 20) + (1 << 19)));
    CHECK(result.status == SimulationStatus::kOutOfMemory);
    CHECK_FALSE(result.reason.empty());
    CHECK(result.overhead == 0);
  }
  CHECK(simulate(trace, config_of(MemoryModel::kPages, 10)).status ==
        SimulationStatus::kOutOfMemory);
}

TEST_CASE("more compute than is allowed is thrash") {
  const Trace trace = trace_of(kFive);
  SimulationConfig config = config_of(MemoryModel::kExact, 30);
  config.most_overhead = 22.0 / 17;
  CHECK(simulate(trace, config).status == SimulationStatus::kOk);
  config.most_overhead = 21.0 / 17;
  const SimulationResult result = simulate(trace, config);
  CHECK(result.status == SimulationStatus::kThrash);
  CHECK_FALSE(result.reason.empty());
}

TEST_CASE("what is not recordable cannot be evicted") {
  std::string text = kFive;
  const std::string plain = R"("in":[0])";
  for (size_t at = text.find(plain); at != std::string::npos; at = text.find(plain, at + 20)) {
    text.replace(at, plain.size(), R"("in":[0],"recordable":false)");
  }
  const SimulationResult result = simulate(trace_of(text), config_of(MemoryModel::kExact, 30));
  CHECK(result.status == SimulationStatus::kOutOfMemory);
}

TEST_CASE("workspaces need room") {
  std::string text = kFive;
  CHECK(simulate(trace_of(text), config_of(MemoryModel::kExact, 40)).evictions == 1);
  text.replace(text.find(R"("ns":2)"), 6, R"("ns":2,"workspace":10)");
  CHECK(simulate(trace_of(text), config_of(MemoryModel::kExact, 40)).evictions == 2);
  CHECK(simulate(trace_of(text), config_of(MemoryModel::kExact, 39)).status ==
        SimulationStatus::kOutOfMemory);
}

TEST_CASE("later iterations keep roots, and only the last is scored") {
  const Trace trace = network_trace(12, 1000);
  SimulationConfig config = config_of(MemoryModel::kExact, 9000);
  const SimulationResult first = simulate(trace, config);
  config.iterations = 3;
  const SimulationResult third = simulate(trace, config);
  CHECK(first.iteration == 1);
  CHECK(third.iteration == 3);
  CHECK(third.status == SimulationStatus::kOk);
  CHECK(third.baseline_ns == first.baseline_ns);
  CHECK(third.overhead > 1);
  CHECK(third.overhead < 2);
  CHECK(third.peak_bytes <= 9000);
}

TEST_CASE("a job that fails in an iteration has failed, and it is said in which") {
  const Trace trace = network_trace(12, 1000);
  SimulationConfig config = config_of(MemoryModel::kExact, 3500);
  config.iterations = 3;
  const SimulationResult result = simulate(trace, config);
  CHECK(result.iteration == 1);
  CHECK(result.status == SimulationStatus::kOutOfMemory);
  CHECK(result.overhead == 0);
  config.memory = MemoryModel::kPages;
  config.budget_bytes = 10;
  CHECK(simulate(trace, config).iteration == 1);
}

// As a job looks ahead once it has evicted: the first step is not known in the second.
TEST_CASE("who looks ahead knows the step before once a step has evicted") {
  size_t differing = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Trace trace = network_trace(40, 1000, 1000, seed);
    SimulationConfig config = config_of(MemoryModel::kExact, trace_peak(trace).peak_bytes / 2);
    config.iterations = 2;
    const SimulationResult plain = simulate(trace, config);
    config.policy = "next-use";
    CHECK(simulate(trace, config).overhead == plain.overhead);
    config.iterations = 3;
    differing += simulate(trace, config).overhead != plain.overhead;
  }
  CHECK(differing > 2);
}

// Three steps until one has repeated itself, one that is recorded, and then the plan.
TEST_CASE("a simulated job follows its plan from the fifth step on, under its own budget") {
  size_t better = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Trace trace = network_trace(24, 1000, 1000, seed);
    for (const MemoryModel memory : {MemoryModel::kExact, MemoryModel::kPages}) {
      SimulationConfig config = config_of(memory, trace_peak(trace).peak_bytes / 2);
      config.granularity = 4096;
      config.iterations = 4;
      config.planner.price_ns = 0;  // operators of a microsecond: searches would count for more
      const double plain = simulate(trace, config).overhead;
      config.policy = "planned";
      CHECK(simulate(trace, config).overhead == plain);
      config.iterations = 5;
      const SimulationResult planned = simulate(trace, config);
      REQUIRE(planned.status == SimulationStatus::kOk);
      CHECK(planned.limit_bytes == config.budget_bytes);
      CHECK(planned.overhead >= 1);
      better += planned.overhead < plain;
      config.planner.simulations = 0;
      CHECK(simulate(trace, config).overhead == plain);
    }
  }
  CHECK(better >= 5);
}

TEST_CASE("two kinds of steps in turn have a plan each in the end") {
  size_t better = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Trace trace = two_networks_trace(24, 1000, 1000, seed);
    SimulationConfig config = config_of(MemoryModel::kExact, trace_peak(trace).peak_bytes / 2);
    config.iterations = 8;
    config.planner.price_ns = 0;
    const double plain = simulate(trace, config).overhead;
    config.policy = "planned";
    const SimulationResult planned = simulate(trace, config);
    REQUIRE(planned.status == SimulationStatus::kOk);
    CHECK(planned.overhead >= 1);
    better += planned.overhead < plain;
  }
  CHECK(better >= 3);
}

TEST_CASE("maps and copies have prices") {
  // Every second page is freed; then one request needs eight of them.
  std::string text =
      R"({"tidepool_trace":1,"name":"holes","device":"cpu","map_ns":1000,"drain_ns":300}
)";
  const size_t bytes = 64 << 10;
  for (int k = 0; k < 16; ++k) {
    text += R"({"root":)" + std::to_string(k) + R"(,"bytes":)" + std::to_string(bytes) + "}\n";
  }
  for (int k = 0; k < 16; k += 2) text += R"({"release":)" + std::to_string(k) + "}\n";
  text += R"({"op":"f","ns":5000,"out":[[16,)" + std::to_string(8 * bytes) + "]]}\n{\"end\":25}\n";
  SimulationConfig config = config_of(MemoryModel::kPages, 16 * bytes);
  config.granularity = bytes;
  const SimulationResult result = simulate(trace_of(text), config);
  CHECK(result.status == SimulationStatus::kOk);
  CHECK(result.remapped_bytes == 8 * bytes);
  CHECK(result.compute_ns == 5000 + 8 * 1000 + 300);
  config.ways = RoomWays::kPages;
  CHECK(simulate(trace_of(text), config).compute_ns == result.compute_ns);
  for (const RoomWays ways : {RoomWays::kWindows, RoomWays::kMoves}) {
    config.ways = ways;
    const SimulationResult stays =
        simulate(trace_of(text), config);  // pages given back, and new ones
    CHECK(stays.remapped_bytes == 0);
    CHECK(stays.compute_ns == 5000);
  }
  config.ways = RoomWays::kAll;
  config.memory = MemoryModel::kArena;
  CHECK(simulate(trace_of(text), config).status == SimulationStatus::kOutOfMemory);
}

TEST_CASE("both versions of what is written in place come back") {
  const Trace trace = trace_of(R"({"tidepool_trace":1,"name":"v","device":"cpu"}
{"root":0,"bytes":10}
{"op":"a","ns":5,"in":[0],"out":[[1,10]]}
{"op":"b","ns":9,"in":[1],"out":[[2,10]]}
{"op":"u","ns":3,"write":[[1,"update"]]}
{"op":"c","ns":1,"out":[[3,30]]}
{"release":3}
{"op":"d","ns":1,"in":[1,2],"out":[[4,10]]}
{"end":7}
)");
  const SimulationResult result = simulate(trace, config_of(MemoryModel::kExact, 40));
  CHECK(result.status == SimulationStatus::kOk);
  CHECK(result.evictions == 2);
  CHECK(result.operators_replayed == 3);  // a once, for b and for u
  CHECK(result.compute_ns == (5 + 9 + 3 + 1 + 1) + (5 + 9 + 3));
}

TEST_CASE("victims go together or singly, and what is written in place may be a root") {
  const Trace trace = network_trace(60, 5000);
  SimulationConfig config = config_of(MemoryModel::kArena, 150'000);
  const SimulationResult together = simulate(trace, config);
  CHECK(together.windows > 0);
  config.evict_singly = true;
  const SimulationResult singly = simulate(trace, config);
  CHECK(singly.status == SimulationStatus::kOk);
  CHECK(singly.evictions > 0);
  CHECK(singly.windows == 0);

  const Trace written = trace_of(R"({"tidepool_trace":1,"name":"w","device":"cpu"}
{"root":0,"bytes":10}
{"op":"a","ns":5,"in":[0],"out":[[1,10]]}
{"op":"u","ns":3,"write":[[1,"update"]]}
{"op":"c","ns":1,"out":[[2,20]]}
{"end":4}
)");
  config = config_of(MemoryModel::kExact, 30);
  CHECK(simulate(written, config).status == SimulationStatus::kOk);
  config.record_in_place = false;
  CHECK(simulate(written, config).status == SimulationStatus::kOutOfMemory);
}

TEST_CASE("random jobs keep all invariants and the budget, at any budget") {
  size_t finished = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Trace trace = random_trace(seed, 400);
    const TracePeak peak = trace_peak(trace);
    for (const MemoryModel model : kModels) {
      for (const size_t budget : {peak.peak_bytes * 3 / 4, peak.peak_bytes * 9 / 10}) {
        SimulationConfig config = config_of(model, budget);
        config.iterations = 2;
        config.granularity = 4096;
        const SimulationResult result = simulate(trace, config);
        CHECK(result.peak_bytes <= budget);
        finished += result.status == SimulationStatus::kOk;
        if (result.status == SimulationStatus::kOk) CHECK(result.overhead >= 1);
      }
    }
  }
  CHECK(finished > 20);
}

TEST_CASE("the same question has the same answer, on any thread") {
  const Trace trace = network_trace(60, 5000);
  SimulationResult results[3];
  std::vector<std::thread> threads;
  for (SimulationResult& result : results) {
    threads.emplace_back(
        [&] { result = simulate(trace, config_of(MemoryModel::kArena, 150'000)); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(results[0].evictions > 0);
  for (const SimulationResult& result : results) {
    CHECK(result.overhead == results[0].overhead);
    CHECK(result.evictions == results[0].evictions);
    CHECK(result.windows == results[0].windows);
    CHECK(result.peak_bytes == results[0].peak_bytes);
  }
}

TEST_CASE("a simulation under an unknown policy is refused") {
  SimulationConfig config = config_of(MemoryModel::kExact, 100);
  config.policy = "fifo";
  CHECK_THROWS_AS(simulate(trace_of(kFive), config), std::invalid_argument);
}

TEST_CASE("a history has all iterations, with their blocks") {
  const Trace trace = network_trace(20, 1000);
  SimulationConfig config;
  config.memory = MemoryModel::kExact;
  config.budget_bytes = trace_peak(trace).peak_bytes / 2;
  config.iterations = 2;
  const TemporaryFile file("work.log");
  const SimulationResult plain = simulate(trace, config);
  SimulationResult watched;
  {
    WorkLog history(file.path(), true);
    watched = simulate(trace, config, &history);
  }
  CHECK(watched.compute_ns == plain.compute_ns);
  CHECK(watched.evictions == plain.evictions);
  const std::string text = file.read();
  CHECK(text.starts_with("iteration 1\n"));
  const size_t last = text.find("iteration 2\n");
  REQUIRE(last != std::string::npos);
  uint64_t evictions = 0, places = 0, allocated = 0;
  for (size_t at = last; (at = text.find(" evict ", at)) != std::string::npos; ++at) ++evictions;
  for (size_t at = 0; (at = text.find(" place ", at)) != std::string::npos; ++at) ++places;
  for (size_t at = 0; (at = text.find(" allocate ", at)) != std::string::npos; ++at) ++allocated;
  CHECK(evictions == plain.evictions);
  CHECK(evictions > 0);
  CHECK(places > 20);
  CHECK(allocated >= places);
}

TEST_CASE("a logged simulation is one iteration of the other, and says what it did") {
  const Trace trace = network_trace(20, 1000);
  SimulationConfig config;
  config.memory = MemoryModel::kExact;
  config.budget_bytes = trace_peak(trace).peak_bytes / 2;
  const TemporaryFile file("work.log");
  const SimulationResult plain = simulate(trace, config);
  const SimulationResult logged = simulate_logged(trace, config, file.path());
  CHECK(logged.status == SimulationStatus::kOk);
  CHECK(logged.overhead == plain.overhead);
  const std::string text = file.read();
  uint64_t evictions = 0, replays = 0;
  for (size_t at = 0; (at = text.find(" evict ", at)) != std::string::npos; ++at) ++evictions;
  for (size_t at = 0; (at = text.find(" replay ", at)) != std::string::npos; ++at) ++replays;
  CHECK(evictions == plain.evictions);
  CHECK(replays == plain.operators_replayed);
  CHECK(evictions > 0);
  config.budget_bytes = 10;
  CHECK_THROWS(simulate_logged(trace, config, "/no/such/folder/work.log"));
}

TEST_CASE("with a tier roots leave before anything has used them, unless they are to stay") {
  TraceBuilder builder{TraceFacts()};
  for (int k = 0; k < 12; ++k) builder.root(1000, RootKind::kParameter);
  for (uint64_t k = 0; k < 12; ++k) {
    const std::vector<uint64_t> reads = {k};
    const std::vector<size_t> outputs = {1000};
    builder.release(builder.call({"op", 1'000'000, reads, {}, outputs}));
  }
  const Trace trace = builder.take();
  SimulationConfig config = config_of(MemoryModel::kExact, 3000);
  CHECK(simulate(trace, config).status == SimulationStatus::kOutOfMemory);
  config.tier = {.capacity_bytes = 100'000, .gb_per_second = 1000};
  const SimulationResult result = simulate(trace, config);
  CHECK(result.status == SimulationStatus::kOk);
  CHECK(result.stored_bytes >= 9000);
  config.offloads_roots = false;
  CHECK(simulate(trace, config).status == SimulationStatus::kOutOfMemory);
}

}  // namespace
}  // namespace tidepool::remat
