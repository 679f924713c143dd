#include "remat/plan/search/gap_search.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

// The least time of all choices within the budget; nothing if there are none.
std::optional<uint64_t> least_time(GapModel& model, size_t budget_bytes) {
  std::vector<GapChoice> choices(model.gaps().size(), GapChoice::kKept);
  std::optional<uint64_t> least;
  for (;;) {
    const GapModel::Outcome outcome = model.evaluate(choices, budget_bytes);
    if (outcome.excess_bytes == 0) least = std::min(least.value_or(UINT64_MAX), outcome.time_ns);
    size_t k = 0;
    for (; k < choices.size() && choices[k] == GapChoice::kDroppedAfter; ++k) {
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

// All choices whose outcome is within the goal's bounds: the least price, in the goal's unit.
std::optional<uint64_t> least_price(GapModel& model, size_t budget_bytes, const GapGoal& goal) {
  const GapModel::Outcome base =
      model.evaluate(std::vector<GapChoice>(model.gaps().size(), GapChoice::kKept), SIZE_MAX);
  const auto most = [](double multiple, uint64_t price) {
    return multiple * static_cast<double>(price) + 1e-6;
  };
  std::vector<GapChoice> choices(model.gaps().size(), GapChoice::kKept);
  std::optional<uint64_t> least;
  for (;;) {
    const GapModel::Outcome outcome = model.evaluate(choices, budget_bytes);
    if (outcome.excess_bytes == 0 &&
        static_cast<double>(outcome.time_ns) <= most(goal.most_time, base.time_ns) &&
        static_cast<double>(outcome.energy_nj) <= most(goal.most_energy, base.energy_nj)) {
      const uint64_t price = goal.least_energy ? outcome.energy_nj : outcome.time_ns;
      least = std::min(least.value_or(UINT64_MAX), price);
    }
    size_t k = 0;
    for (; k < choices.size() && choices[k] == GapChoice::kDroppedAfter; ++k) {
      choices[k] = GapChoice::kKept;
    }
    if (k == choices.size()) return least;
    choices[k] = static_cast<GapChoice>(static_cast<int>(choices[k]) + 1);
  }
}

TEST_CASE("under bounds on time and energy the search finds what trying all choices finds") {
  size_t feasible = 0, bound = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Trace trace = network_trace(7, 1000, 100, seed);
    // Every second operator of a kind of its own takes much power.
    trace.names.emplace_back("hungry");
    for (size_t k = 0; k < trace.operators.size(); k += 2) {
      trace.operators[k].name = static_cast<uint32_t>(trace.names.size() - 1);
    }
    GapModel model(trace, EnergyTable(R"({"watts":1,"operators":{"hungry":9}})"));
    GapSearchConfig config;
    config.budget_bytes = trace_peak(trace).peak_bytes * 6 / 10;
    config.operators = 400'000;
    std::optional<uint64_t> unbounded;
    for (const double most : {100.0, 1.2, 1.1, 1.02}) {
      for (const bool least_energy : {false, true}) {
        config.goal = {};
        config.goal.least_energy = least_energy;
        (least_energy ? config.goal.most_time : config.goal.most_energy) = most;
        const auto least = least_price(model, config.budget_bytes, config.goal);
        const auto found = find_gaps(model, config);
        REQUIRE(found.has_value() == least.has_value());
        if (!found) continue;
        ++feasible;
        CHECK((least_energy ? found->outcome.energy_nj : found->outcome.time_ns) == *least);
        if (least_energy && most == 100.0) unbounded = least;
        if (least_energy && most < 100.0 && *least > unbounded.value_or(0)) ++bound;
      }
    }
  }
  CHECK(feasible > 20);
  CHECK(bound > 0);
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
}  // namespace tidepool::remat
