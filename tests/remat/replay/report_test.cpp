#include "remat/replay/report.h"

#include "nlohmann/json.hpp"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

Run good() {
  Run run;
  run.trace = "net";
  run.policy = "needed-cost";
  run.memory = MemoryModel::kArena;
  run.ratio = 0.5;
  run.budget_bytes = 1000;
  run.iterations = 3;
  run.result.overhead = 1.25;
  run.result.limit_bytes = 1000;
  run.result.iteration = 2;
  run.result.peak_bytes = 900;
  return run;
}

Run failed() {
  Run run = good();
  run.result.status = SimulationStatus::kOutOfMemory;
  run.result.overhead = 0;
  run.result.reason = "no room,\n\"at all\"";
  return run;
}

TEST_CASE("a JSON object has the documented keys") {
  const auto object = nlohmann::json::parse(json_line(good()));
  CHECK(object["trace"] == "net");
  CHECK(object["policy"] == "needed-cost");
  CHECK(object["memory"] == "arena");
  CHECK(object["ratio"] == 0.5);
  CHECK(object["iteration"] == 2);
  CHECK(object["iterations"] == 3);
  CHECK(!object.contains("oracle"));
  CHECK(object["overhead"] == 1.25);
  CHECK(object["status"] == "ok");
  CHECK(object["peak_bytes"] == 900);
  CHECK(object["reason"].is_null());
  CHECK(object["lower_bound"].is_null());  // no schedule fits
  Run bounded = good();
  bounded.lower_bound = 1.125;
  CHECK(nlohmann::json::parse(json_line(bounded))["lower_bound"] == 1.125);
  bounded.oracle = true;
  CHECK(nlohmann::json::parse(json_line(bounded))["oracle"] == true);
  CHECK(json_line(good()).find('\n') == std::string::npos);
}

TEST_CASE("a least budget says what it is by") {
  LeastBudget budget;
  budget.trace = "net";
  budget.policy = "coop";
  budget.peak = {4 << 20, 1 << 20, 0};
  budget.chain.bytes = 3 << 20;
  const auto object = nlohmann::json::parse(json_line(budget));
  CHECK(object["floor_bytes"] == 1 << 20);
  CHECK(object["chain_bytes"] == 3 << 20);
  CHECK(object["simulated_bytes"].is_null());
  budget.simulated_bytes = 2 << 20;
  CHECK(nlohmann::json::parse(json_line(budget))["simulated_bytes"] == 2 << 20);
  const std::string text = table_text(std::vector<LeastBudget>{budget});
  CHECK_THAT(text, ContainsSubstring("1.0 MiB  0.250"));
  CHECK_THAT(text, ContainsSubstring("3.0 MiB  0.750"));
  CHECK_THAT(text, ContainsSubstring("2.0 MiB  0.500"));
}

TEST_CASE("a failed run has no overhead, but a reason") {
  const auto object = nlohmann::json::parse(json_line(failed()));
  CHECK(object["overhead"].is_null());
  CHECK(object["status"] == "out_of_memory");
  CHECK(object["reason"] == "no room,\n\"at all\"");
}

TEST_CASE("CSV has one heading, and cells of any text stay one cell") {
  const std::vector<Run> runs = {good(), failed()};
  const std::string text = csv_text(runs);
  CHECK_THAT(text, Catch::Matchers::StartsWith("trace,policy,memory,ratio,budget_bytes,"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  CHECK_THAT(text, ContainsSubstring("\nnet,needed-cost,arena,0.5,1000,1000,3,2,ok,1.25,,900,"));
  CHECK_THAT(text, ContainsSubstring(R"("no room, ""at all""")"));
}

TEST_CASE("a grid's summary names the lowest ratio, the holes above it, and the worst rise") {
  std::vector<Run> runs;
  const double overheads[] = {0, 2.0, 1.6, 0, 1.2, 1.5, 1.0};
  for (size_t k = 0; k < 7; ++k) {
    runs.push_back(overheads[k] == 0 ? failed() : good());
    runs.back().ratio = 0.3 + 0.1 * static_cast<double>(k);
    runs.back().result.overhead = overheads[k];
  }
  runs.push_back(failed());
  runs.back().policy = "coop";
  const std::string text = summary_text(runs);
  CHECK_THAT(text, ContainsSubstring("needed-cost: 5 of 7 run, from ratio 0.4; fails at 0.6; "
                                     "worst rise with the budget 1.250x at 0.8"));
  CHECK_THAT(text, ContainsSubstring("coop: 0 of 1 run\n"));
}

TEST_CASE("a table shows each run, and why a single one failed") {
  const std::vector<Run> both = {good(), failed()};
  const std::string text = table_text(both);
  CHECK_THAT(text, ContainsSubstring("1.2500"));
  CHECK_THAT(text, ContainsSubstring("out_of_memory in iteration 2\n"));
  CHECK_THAT(text, !ContainsSubstring("no room"));
  CHECK_THAT(table_text({&both[1], 1}), ContainsSubstring("no room"));
}

}  // namespace
}  // namespace tidepool::remat
