#include "bindings/torch_cuda/settings.h"

#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/refusal.h"

namespace tidepool::torch_cuda {
namespace {

// What the parser says to the text, or "".
std::string refusal(const std::string& text) {
  return test::refusal_by<std::invalid_argument>([&] { (void)Settings::parse(text); });
}

TEST_CASE("the settings of CUDA's plugin") {
  CHECK(Settings::parse(R"({"budget_bytes": 5, "poison": true})").allocator.poison);
  CHECK(Settings::parse(R"({"budget_bytes": 0, "budget_share": 0.5})").budget_share == 0.5);
  CHECK(Settings::parse(R"({"budget_share": 1})").budget_share == 1);
  CHECK(refusal("{}").find("budget_bytes: expected more than 0") == 0);
  CHECK(Settings::parse(R"({"budget_share": 1, "allocator": "native"})").native);
  CHECK_FALSE(Settings::parse(R"({"budget_share": 1, "allocator": "native"})").rematerialize);
  CHECK_FALSE(Settings::parse(R"({"budget_bytes": 5, "rematerialize": false})").rematerialize);
  const Settings chaotic = Settings::parse(
      R"({"budget_bytes": 5, "policy": "lru", "chaos": "op", "limits": {"depth": 3}})");
  CHECK(chaotic.rematerialize);
  CHECK(chaotic.allocator.poison);
  CHECK(chaotic.runtime.config.policy == "lru");
  CHECK(chaotic.runtime.config.limits.depth == 3);
  CHECK(refusal(R"({"budget_share": 1, "allocator": "x"})").find("allocator: 'x'") == 0);
  CHECK(refusal(R"({"budget_share": 1.5})") ==
        "budget_share: expected a number from 0 to 1, not 1.5");
  CHECK(refusal(R"({"budget_bytes": 5, "budget_share": "x"})").find("budget_share") == 0);
}

}  // namespace
}  // namespace tidepool::torch_cuda
