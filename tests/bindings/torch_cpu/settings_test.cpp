#include "bindings/torch_cpu/settings.h"

#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/refusal.h"

namespace tidepool::torch_cpu {
namespace {

// What the parser says to the text, or "".
std::string refusal(const std::string& text) {
  return test::refusal_by<std::invalid_argument>([&] { (void)Settings::parse(text); });
}

std::string cpu_refusal(const std::string& entries) {
  return refusal("{\"budget_bytes\": 1000" + entries + "}");
}

TEST_CASE("the settings of the CPU's plugin") {
  const auto settings = Settings::parse(
      R"({"device": "cpu", "budget_bytes": 8589934592, "policy": "coop", "chaos": "random:7",
          "poison": false, "page_bytes": 65536, "log_allocations": true, "recording": false,
          "limits": {"depth": 1, "versions": 2, "age_steps": 3, "records": 4,
                     "bookkeeping_bytes": 5}, "unknown": []})");
  CHECK(settings.allocator.budget_bytes == 8589934592);
  CHECK(settings.allocator.page_bytes == 65536);
  CHECK(settings.logs_allocations);
  CHECK(settings.allocator.poison);  // chaos wants it
  CHECK(settings.runtime.config.policy == "coop");
  CHECK(settings.runtime.config.chaos == remat::Chaos::kRandom);
  CHECK(settings.runtime.config.seed == 7);
  CHECK(settings.runtime.config.limits.depth == 1);
  CHECK(settings.runtime.config.limits.versions == 2);
  CHECK(settings.runtime.config.limits.age_steps == 3);
  CHECK(settings.runtime.config.limits.records == 4);
  CHECK(settings.runtime.config.limits.bookkeeping_bytes == 5);
  CHECK_FALSE(settings.runtime.recording);
  CHECK(cpu_refusal("").empty());
}

TEST_CASE("an entry that does not fit is named, and never converted") {
  CHECK(refusal("").find("settings: expected JSON") == 0);
  CHECK(refusal("[]") == "settings: expected a JSON object");
  CHECK(refusal("{}") == "budget_bytes: expected more than 0");
  for (const char* wrong : {"-1", "1.5", "1e30", "true", "\"8GiB\"", "18446744073709551616"}) {
    INFO(wrong);
    const std::string text = std::string("{\"budget_bytes\": ") + wrong + "}";
    CHECK(refusal(text).find("budget_bytes: expected a whole number up to") == 0);
  }
  CHECK(cpu_refusal(", \"device\": \"cuda\"").find("device: 'cuda' is not this plugin's") == 0);
  CHECK(cpu_refusal(", \"poison\": 1") == "poison: expected true or false, not 1");
  CHECK(cpu_refusal(", \"policy\": 3") == "policy: expected a text, not 3");
  CHECK(cpu_refusal(", \"limits\": 3") == "limits: expected an object, not 3");
  CHECK(cpu_refusal(", \"limits\": {\"depth\": 4294967296}") ==
        "limits.depth: expected a whole number up to 4294967295, not 4294967296");
  for (const char* chaos : {"often", "random:", "random:-1", "random:5x", "random: 5",
                            "random:18446744073709551616", "bounded:", "bounded:x"}) {
    CHECK(cpu_refusal(std::string(", \"chaos\": \"") + chaos + "\"")
              .find(std::string("chaos: '") + chaos) == 0);
  }
}

TEST_CASE("bounded chaos may have a seed") {
  for (const auto& [text, seed] : {std::pair("bounded", 0u), std::pair("bounded:12", 12u)}) {
    const auto settings =
        Settings::parse(std::string(R"({"budget_bytes": 1, "chaos": ")") + text + "\"}");
    CHECK(settings.runtime.config.chaos == remat::Chaos::kBounded);
    CHECK(settings.runtime.config.seed == seed);
  }
}

TEST_CASE("a job that is driven by a trace") {
  const auto settings = Settings::parse(
      R"({"budget_bytes": 1, "trace": {"path": "t", "blocks": true},
          "costs": {"path": "c", "log": "l"}})");
  CHECK(settings.runtime.trace.blocks);
  CHECK(settings.driven.costs_path == "c");
  CHECK(settings.driven.log_path == "l");
  CHECK(Settings::parse(R"({"budget_bytes": 1})").driven.costs_path.empty());
  CHECK(cpu_refusal(R"(, "trace": {"path": "t", "blocks": true, "first_step": 2})") ==
        "trace.blocks: expected the trace to begin with step 1");
}

}  // namespace
}  // namespace tidepool::torch_cpu
