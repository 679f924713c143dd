#include "remat/replay/graph_text.h"

#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "remat/plan/search/gap_model.h"
#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("each kind of step is a graph, after a heading") {
  const Trace trace = two_networks_trace(8, 1000, 10, 2);
  const size_t budget = trace_peak(trace).peak_bytes * 8 / 10;
  GapSearchConfig search;
  search.budget_bytes = budget;
  std::istringstream text(
      graph_text(trace, search, EnergyTable(R"({"watts":2,"joules_per_byte":0.5})")));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["trace"] == "two networks");
  CHECK(lines[0]["budget_bytes"] == budget);
  CHECK(lines[0]["joules_per_byte"] == 0.5);
  for (size_t k = 1; k < lines.size(); ++k) {
    const nlohmann::json& step = lines[k];
    CHECK(step["costs_ns"].size() == step["fixed"].size());
    CHECK(step["values"].size() > 0);
    CHECK(step["values"][0].size() == 9);
    CHECK(step["energies_nj"].size() == step["costs_ns"].size());
    CHECK(step["energies_nj"][0] == 2 * step["costs_ns"][0].get<uint64_t>());
    CHECK(step["found_nj"] == 2 * step["found_ns"].get<uint64_t>());
    CHECK(step["gaps"].size() == step["found"].size());
    CHECK(step["found_ns"] >= 0);
    CHECK(step["digest"].get<std::string>().size() == 16);
  }
}

}  // namespace
}  // namespace tidepool::remat
