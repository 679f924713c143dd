#include "remat/simulate/memory/lower_bound.h"

#include "remat/plan/simulator.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

// While c runs: 40 bytes of its own, a's and b's results besides, and the root.
const char* const kHeader = R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"root":0,"bytes":10}
{"op":"a","ns":50,"in":[0],"out":[[1,10]]}
{"op":"b","ns":10,"in":[0],"out":[[2,20]]}
{"op":"c","ns":30,"in":[0],"out":[[3,30]],"workspace":10}
{"release":3}
)";

TEST_CASE("the bound of a case worked out by hand") {
  const Trace trace = trace_of(std::string(kHeader) + R"({"op":"d","ns":5,"in":[1,2],"out":[[4,5]]}
{"end":6}
)");
  const double baseline = 50 + 10 + 30 + 5;
  CHECK(*lower_bound(trace, 80) == 1);
  CHECK(*lower_bound(trace, 79) == 1 + 0.5 / baseline);  // 1 of the 20 bytes of b, 10 ns for all
  CHECK(*lower_bound(trace, 60) == 1 + 10 / baseline);   // all of b
  CHECK(*lower_bound(trace, 55) == 1 + 35 / baseline);   // and half of a
  CHECK(*lower_bound(trace, 50) == 1 + 60 / baseline);   // both
  CHECK(!lower_bound(trace, 49));                        // c does not fit
}

TEST_CASE("what nobody reads any more is free, unless it has to be there at the end") {
  const Trace trace = trace_of(std::string(kHeader) + R"({"op":"d","ns":5,"in":[1],"out":[[4,5]]}
{"end":6}
)");
  const double baseline = 50 + 10 + 30 + 5;
  CHECK(*lower_bound(trace, 60) == 1);
  CHECK(*lower_bound(trace, 60, true) == 1 + 10 / baseline);
}

TEST_CASE("a root is fixed until it is overwritten, and an update of it, too") {
  const std::string start = R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"root":0,"bytes":10}
{"op":"w","ns":8,"write":[[0,")";
  const std::string end = R"("]]}
{"op":"c","ns":2,"out":[[1,20]]}
{"release":1}
{"op":"d","ns":2,"in":[0],"out":[[2,1]]}
{"end":5}
)";
  CHECK(!lower_bound(trace_of(start + "update" + end), 20));
  CHECK(!lower_bound(trace_of(start + "side" + end), 20));
  CHECK(*lower_bound(trace_of(start + "overwrite" + end), 20) == 1 + 8.0 / 12);
}

TEST_CASE("no policy goes below the bound, and it does not grow with the budget") {
  size_t compared = 0;
  size_t above = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Trace trace =
        seed % 2 == 0 ? network_trace(25, 1000, 1000, seed) : random_trace(seed, 300);
    const size_t peak = trace_peak(trace).peak_bytes;
    for (size_t percent = 20; percent <= 100; percent += 10) {
      const size_t budget = peak * percent / 100;
      const auto bound = lower_bound(trace, budget);
      if (bound) CHECK(*bound >= lower_bound(trace, budget + peak / 20).value());
      for (const char* policy : {"needed-cost", "dtr", "msps", "lru"}) {
        SimulationConfig config;
        config.policy = policy;
        config.memory = MemoryModel::kExact;
        config.budget_bytes = budget;
        config.most_overhead = 20;
        const SimulationResult result = simulate(trace, config);
        if (result.status != SimulationStatus::kOk) continue;
        ++compared;
        INFO(seed << " " << percent << " " << policy);
        REQUIRE(bound);
        CHECK(result.overhead >= *bound - 1e-9);
        above += *bound > 1;
      }
    }
    CHECK(lower_bound(trace, peak) == 1);
  }
  CHECK(compared > 100);
  CHECK(above > 50);
}

}  // namespace
}  // namespace tidepool::remat
