#include "remat/replay/options.h"

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

ReplayOptions parsed(std::vector<std::string> arguments) { return parse_options(arguments); }

TEST_CASE("the old name of an option is taken") {
  const auto options = parsed({"a", "--budget-ratio", "1", "--handle", "4KiB"});  // the old name
  CHECK(options.page_bytes == 4096);
}

TEST_CASE("options are read, in either spelling") {
  const ReplayOptions options = parsed({"a.jsonl",
                                        "--budget-ratio=0.5",
                                        "--policy",
                                        "needed-cost,coop",
                                        "--memory",
                                        "arena",
                                        "--format=dtr",
                                        "--iterations",
                                        "2",
                                        "--json",
                                        "--jobs",
                                        "3",
                                        "--mutate",
                                        "in-place",
                                        "--end-resident",
                                        "no",
                                        "--lineage-limits",
                                        "yes",
                                        "--page",
                                        "2MiB",
                                        "--evict",
                                        "singly",
                                        "--partition=yes",
                                        "--in-place=no",
                                        "--oracle",
                                        "--map-ns",
                                        "100",
                                        "--drain-ns=7",
                                        "--copy-speed=3.5",
                                        "--ways=moves",
                                        "b.jsonl"});
  CHECK(options.traces == std::vector<std::string>{"a.jsonl", "b.jsonl"});
  CHECK(options.ratios == std::vector<double>{0.5});
  CHECK(options.policies == std::vector<std::string>{"needed-cost", "coop"});
  CHECK(options.memory == MemoryModel::kArena);
  CHECK(options.format == TraceFormat::kDtr);
  CHECK(options.iterations == 2);
  CHECK(options.json);
  CHECK(options.jobs == 3);
  CHECK(options.mutation == DtrMutation::kInPlace);
  CHECK(options.end_resident == false);
  CHECK(options.lineage_limits == true);
  CHECK(options.page_bytes == 2u << 20);
  CHECK(options.map_ns == 100);
  CHECK(options.drain_ns == 7);
  CHECK(options.copy_bytes_per_ns == 3.5);
  CHECK(options.ways == RoomWays::kMoves);
  CHECK(options.oracle);
  CHECK(options.evict_singly);
  CHECK(options.partition);
  CHECK_FALSE(options.record_in_place);
  CHECK_FALSE(options.grid);
  CHECK_FALSE(parsed({"a.jsonl", "--budget-ratio=0.5"}).oracle);
}

TEST_CASE("the default policy has a name of its own, and a search a bound") {
  const ReplayOptions options =
      parsed({"a.jsonl", "--budget-ratio=0.5", "--policy=default,planned", "--search=7"});
  CHECK(options.policies == std::vector<std::string>{"default", "planned"});
  CHECK(options.planner.simulations == 7);
  CHECK(parsed({"a.jsonl", "--budget-ratio=0.5"}).planner.simulations == 300);
}

TEST_CASE("a grid has both its ends") {
  const ReplayOptions options = parsed({"a", "--grid", "0.3:0.9:0.1"});
  CHECK(options.grid);
  CHECK(options.ratios == std::vector<double>{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9});
  CHECK(parsed({"a", "--grid", "0.30:0.90:0.01"}).ratios.size() == 61);
  CHECK(parsed({"a", "--grid", "0.5:0.5:0.1"}).ratios == std::vector<double>{0.5});
  CHECK(parsed({"a", "--grid", "0.5:0.69:0.1"}).ratios == std::vector<double>{0.5, 0.6});
}

TEST_CASE("a budget is a size") {
  CHECK(parsed({"a", "--budget", "1GiB"}).budget_bytes == 1u << 30);
  CHECK_THROWS_WITH(parsed({"a", "--budget", "50%"}), ContainsSubstring("--budget-ratio"));
  CHECK_THROWS_WITH(parsed({"a", "--budget", "much"}), ContainsSubstring("--budget: "));
}

TEST_CASE("the search in graphs takes as long as is said") {
  const auto options = parsed({"a", "--budget", "1GiB", "--graph", "--graph-seconds", "2.5"});
  CHECK(options.graph_seconds == 2.5);
  CHECK_THROWS_WITH(parsed({"a", "--budget", "1GiB", "--graph-seconds", "2"}),
                    ContainsSubstring("--graph-seconds goes with --graph"));
}

TEST_CASE("one run can be logged") {
  CHECK(parsed({"a", "--budget", "1GiB", "--log", "x"}).log_path == "x");
  CHECK(parsed({"a", "--budget", "1GiB", "--iterations", "2", "--history", "x"}).history_path ==
        "x");
}

TEST_CASE("help needs nothing else") {
  CHECK(parsed({"--help"}).help);
  CHECK(parsed({"--list-policies"}).list_policies);
  CHECK(parsed({"a", "--least-budget"}).least_budget);
  CHECK_THAT(std::string(kReplayHelp), ContainsSubstring("--grid A:B:STEP"));
}

TEST_CASE("a wrong command line is refused with what was expected") {
  struct Case {
    std::vector<std::string> arguments;
    std::string reason;
  };
  const Case cases[] = {
      {{"--budget-ratio", "0.5"}, "no trace"},
      {{"a"}, "expected one of --budget-ratio, --budget, --grid and --least-budget"},
      {{"a", "--budget-ratio", "0.5", "--budget", "1GiB"}, "more than one of"},
      {{"a", "--least-budget", "--budget", "1GiB"}, "expected one of"},
      {{"a", "--least-budget", "--iterations", "2"}, "one iteration"},
      {{"a", "--budget-ratio", "zero"}, "'zero' is no number from 0.001 to 1000"},
      {{"a", "--budget-ratio", "nan"}, "no number"},
      {{"a", "--budget-ratio", "0.5x"}, "no number"},
      {{"a", "--budget-ratio"}, "a value is missing"},
      {{"a", "--grid", "0.3:0.9"}, "A:B:STEP"},
      {{"a", "--grid", "0.9:0.3:0.1"}, "below"},
      {{"a", "--grid", "0.1:0.9:0"}, "no number"},
      {{"a", "--grid", "1:1000:0.001"}, "more than 10000 points"},
      {{"a", "--budget-ratio", "1", "--memory", "heap"}, "exact, arena, pages"},
      {{"a", "--budget-ratio", "1", "--format", "csv"}, "tidepool, dtr"},
      {{"a", "--budget-ratio", "1", "--policy", "best"}, "unknown policy 'best'"},
      {{"a", "--budget-ratio", "1", "--iterations", "0"}, "from 1 to 1000"},
      {{"a", "--budget-ratio", "1", "--colour"}, "unknown option --colour"},
      {{"a", "--budget-ratio", "1", "--page", "3KiB"}, "power of two"},
      {{"a", "--budget-ratio", "1", "--end-resident", "1"}, "yes or no"},
      {{"a", "--budget-ratio", "1", "--csv", "x"}, "go with --grid"},
      {{"a", "b", "--grid", "0.1:0.2:0.1", "--csv", "x"}, "one trace"},
      {{"a", "--grid", "0.1:0.2:0.1", "--log", "x"}, "--log goes with one trace"},
      {{"a", "--budget-ratio", "1", "--policy", "needed-cost,coop", "--log", "x"},
       "--log goes with"},
      {{"a", "--budget-ratio", "1", "--iterations", "2", "--log", "x"}, "--log goes with"},
      {{"a", "--budget-ratio", "1", "--log", "x", "--history", "y"}, "--history goes with"},
      {{"a", "--budget-ratio", "1", "--policy", "needed-cost,coop", "--history", "y"},
       "--history goes with"},
      {{"a", "--budget-ratio", "1", "--oracle"}, "goes with --iterations"},
  };
  for (const Case& each : cases) {
    CHECK_THROWS_WITH(parsed(each.arguments), ContainsSubstring(each.reason));
  }
}

}  // namespace
}  // namespace tidepool::remat
