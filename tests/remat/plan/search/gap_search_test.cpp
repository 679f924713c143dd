#include "remat/plan/search/gap_search.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::plan {
namespace {

// The least time of all choices within the budget; nothing if there are none.
std::optional<uint64_t> least_time(GapModel& model, size_t budget_bytes) {
  std::vector<GapChoice> choices(model.gaps().size(), GapChoice::kKept);
  std::optional<uint64_t> least;
  for (;;) {
    const GapModel::Outcome outcome = model.evaluate(choices, budget_bytes);
    if (outcome.excess_bytes == 0) least = std::min(least.value_or(UINT64_MAX), outcome.time_ns);
    size_t k = 0;
    for (; k < choices.size() && choices[k] == GapChoice::kDroppedOnce; ++k) {
      choices[k] = GapChoice::kKept;
    }
    if (k == choices.size()) return least;
    choices[k] = static_cast<GapChoice>(static_cast<int>(choices[k]) + 1);
  }
}

TEST_CASE("the search finds what trying all choices finds") {
  size_t feasible = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Trace trace = network_trace(7, 1000, 100, seed);
    GapModel model(trace);
    REQUIRE(model.gaps().size() <= 9);
    for (const size_t tenths : {9, 7, 6, 5}) {
      GapSearchConfig config;
      config.budget_bytes = trace_peak(trace).peak_bytes * tenths / 10;
      config.operators = 200'000;
      const std::optional<uint64_t> least = least_time(model, config.budget_bytes);
      const std::optional<FoundGaps> found = find_gaps(model, config);
      REQUIRE(found.has_value() == least.has_value());
      if (!found) continue;
      ++feasible;
      CHECK(found->outcome.time_ns == *least);
      CHECK(found->outcome.excess_bytes == 0);
      CHECK(model.evaluate(found->choices, config.budget_bytes).time_ns == *least);
    }
  }
  CHECK(feasible > 20);
}

TEST_CASE("a search may be told to stop, and one seed decides what it finds") {
  const Trace trace = network_trace(24, 1000, 100, 3);
  GapModel model(trace);
  GapSearchConfig config;
  config.budget_bytes = trace_peak(trace).peak_bytes * 6 / 10;
  config.operators = 100'000;
  const auto once = find_gaps(model, config), again = find_gaps(model, config);
  REQUIRE((once && again));
  CHECK(once->choices == again->choices);
  StopToken stop;
  stop.request_stop();
  config.stop = &stop;
  const auto stopped = find_gaps(model, config);
  REQUIRE(stopped);
  CHECK(stopped->evaluations < once->evaluations);
}

}  // namespace
}  // namespace tidepool::plan
