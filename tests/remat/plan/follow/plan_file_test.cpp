#include "remat/plan/follow/plan_file.h"

#include <string>
#include <vector>

#include "remat/plan/follow/step_digest.h"
#include "remat/plan/search/planner.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

PlanFile sample() {
  PlanFile file;
  file.trace = "sample";
  file.solver = "search";
  file.budget_bytes = 1000;
  file.alignment = 64;
  PlannedStep step;
  step.digest = 0x123456789abcdef0;
  step.operators = 7;
  step.outputs = 3;
  step.plan.policy = "next-use";
  step.plan.use_share = 0.75;
  step.plan.copies = {0.25, 4, 0.5};
  step.plan.preference = Preference::kMoves;
  step.plan.weights = {1, 0.25, 16};
  file.steps.push_back(step);
  step.plan = {};
  step.plan.gaps = {{2, 0, false}, {0, 5, true}, {1, 1, false, 2}};
  file.steps.push_back(step);
  return file;
}

std::string error_of(const std::string& text) {
  const TemporaryFile file("plan");
  file.write(text);
  try {
    read_plan_file(file.path());
  } catch (const PlanFileError& error) {
    const std::string said = error.what();
    REQUIRE(said.starts_with(file.path()));
    return said.substr(file.path().size());
  }
  return "";
}

TEST_CASE("a plan file that is read says what was written") {
  const TemporaryFile path("plan");
  path.write(plan_text(sample()));
  const PlanFile read = read_plan_file(path.path());
  CHECK(plan_text(read) == plan_text(sample()));
  CHECK(read.alignment == 64);
  REQUIRE(read.steps.size() == 2);
  CHECK(read.steps[0].digest == 0x123456789abcdef0);
  CHECK(read.steps[0].plan.weights == std::vector<float>{1, 0.25, 16});
  CHECK(read.steps[0].plan.preference == Preference::kMoves);
  CHECK(!read.steps[0].plan.gaps);
  REQUIRE(read.steps[1].plan.gaps);
  CHECK(*read.steps[1].plan.gaps == *sample().steps[1].plan.gaps);
}

TEST_CASE("a plan file with any byte changed or missing is refused") {
  const std::string text = plan_text(sample());
  REQUIRE(error_of(text).empty());
  for (size_t k = 0; k < text.size(); ++k) {
    std::string damaged = text;
    damaged[k] = static_cast<char>(damaged[k] ^ 1);
    CHECK(!error_of(damaged).empty());
    CHECK(!error_of(text.substr(0, k)).empty());
  }
  CHECK(error_of(text + text) == ":4: a line after the end");
}

TEST_CASE("a plan file says what is wrong with it") {
  PlanFile file = sample();
  file.steps[1].plan.gaps->push_back({3, 0, false});
  CHECK(error_of(plan_text(file)) == ":3: \"gaps\" names result 3 of 3");
  file = sample();
  file.steps[1].plan.gaps->push_back({0, 0, false, 4});
  CHECK(error_of(plan_text(file)) == ":3: \"gaps\" names result 4 of 3");
  std::string text = plan_text(sample());
  text.erase(text.find(",\"drop-after\",2") + 13, 2);
  CHECK(error_of(text) == ":3: \"gaps\" has an entry of 3 fields for 'drop-after'; expected 4");
  file = sample();
  file.steps[0].plan.weights.pop_back();
  CHECK(error_of(plan_text(file)) == ":2: 2 \"weights\" for 3 results");
  file = sample();
  file.steps[0].plan.policy = "random";
  CHECK(error_of(plan_text(file)) == ":2: \"policy\": unknown 'random'");
  file = sample();
  file.steps[0].plan.use_share = 0.3;
  CHECK(error_of(plan_text(file)) == ":2: \"use_share\" is no number of quarters up to 1");
  file = sample();
  file.steps[0].plan.copies.root_factor = 0;
  CHECK(error_of(plan_text(file)) == ":2: \"root_copy_factor\" is no number above 0");
  CHECK(error_of("{\"tidepool_trace\":1}\n") == ":1: this is no plan file");
  CHECK(error_of("{\"tidepool_plan\":2}\n") == ":1: version 2 of plan files; expected 1");
  CHECK_THROWS_AS(read_plan_file("/nonexistent/plan"), PlanFileError);
}

TEST_CASE("a plan is found by what its step does") {
  const Trace step = network_trace(6, 1000);
  PlanFile file;
  file.steps.push_back(
      {step_digest(step, 1), step.operators.size(), weighted_outputs(step).size(), {}});
  CHECK(file.find(step) == &file.steps[0]);
  CHECK(file.find(with_other_times(step, 0.5, 3)) == &file.steps[0]);
  CHECK(file.find(network_trace(7, 1000)) == nullptr);
  CHECK(file.find(network_trace(6, 1001)) == nullptr);
}

}  // namespace
}  // namespace tidepool::remat
