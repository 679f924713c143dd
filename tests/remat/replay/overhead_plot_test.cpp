#include "remat/replay/overhead_plot.h"

#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Run point(const char* policy, double ratio, double overhead) {
  Run run;
  run.policy = policy;
  run.ratio = ratio;
  run.result.overhead = overhead;
  if (overhead == 0) run.result.status = SimulationStatus::kThrash;
  return run;
}

TEST_CASE("each policy has a line, with a gap where it fails") {
  const std::vector<Run> runs = {point("a", 0.3, 1.5), point("a", 0.4, 0), point("a", 0.5, 1.2),
                                 point("b<", 0.3, 1.4), point("b<", 0.5, 1.1)};
  const std::string text = overhead_plot(runs, "x & y");
  CHECK_THAT(text, Catch::Matchers::StartsWith("<svg "));
  CHECK_THAT(text, Catch::Matchers::EndsWith("</svg>\n"));
  CHECK(count_of(text, "<path ") == 2);
  CHECK(count_of(text, "<circle ") == 4);
  CHECK_THAT(text, ContainsSubstring("x &amp; y"));
  CHECK_THAT(text, ContainsSubstring("b&lt;"));
  // Policy a's line starts anew after its gap; b's does not.
  CHECK(count_of(text.substr(text.find("<path ")), "M") == 3);
}

TEST_CASE("a plot of nothing, and of one point, is a plot") {
  CHECK_THAT(overhead_plot({}, "none"), Catch::Matchers::EndsWith("</svg>\n"));
  const std::vector<Run> one = {point("a", 0.5, 1)};
  const std::string text = overhead_plot(one, "one");
  CHECK(count_of(text, "<circle ") == 1);
  CHECK(text.find("nan") == std::string::npos);
  CHECK(text.find("inf") == std::string::npos);
}

}  // namespace
}  // namespace tidepool::remat
