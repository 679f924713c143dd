#include "remat/plan/search/energy_table.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("an operator takes the watts of its kind for as long as it runs") {
  const Trace trace = trace_of(
      "{\"tidepool_trace\":1,\"name\":\"t\",\"device\":\"cpu\"}\n"
      "{\"op\":\"a\",\"ns\":10,\"out\":[[0,100]]}\n"
      "{\"op\":\"b\",\"ns\":20,\"in\":[0],\"out\":[[1,100]]}\n{\"end\":2}\n");
  const EnergyTable table(R"({"watts":3,"operators":{"b":0.5},"joules_per_byte":1e-9})");
  CHECK(table.nanojoules(trace, trace.operators[0]) == 30);
  CHECK(table.nanojoules(trace, trace.operators[1]) == 10);
  CHECK(table.joules_per_byte() == 1e-9);
  CHECK(EnergyTable().nanojoules(trace, trace.operators[0]) == 0);
}

TEST_CASE("a table that is none is refused, with what is wrong") {
  for (const auto& [text, reason] : std::initializer_list<std::pair<std::string, std::string>>{
           {"[]", "not a JSON object"},
           {"{}", "\"watts\" is missing"},
           {R"({"watts":-1})", "a number from 0"},
           {R"({"watts":1,"operators":{"a":"much"}})", "\"a\""},
           {R"({"watts":1,"operators":[]})", "no object of watts by operator"},
           {R"({"watts":1,"joules":2})", "unknown field \"joules\""}}) {
    CHECK_THROWS_WITH(EnergyTable(text), ContainsSubstring(reason));
  }
  CHECK_THROWS_WITH(read_energy_table("/nowhere/table.json"), ContainsSubstring("cannot be read"));
}

}  // namespace
}  // namespace tidepool::remat
