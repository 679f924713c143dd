#include "remat/simulate/job/recorded_costs.h"

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string kTrace = R"({"tidepool_trace":2,"name":"t","device":"cpu","copy_bytes_per_ns":4,)"
                           R"("map_ns":5000,"drain_ns":8}
{"block":0,"bytes":8}
{"op":"f","ns":3,"out":[[0,8,0]]}
{"op":"tidepool::cut","ns":0,"write":[[0,"update"]],"recordable":false}
{"op":"g","ns":9,"in":[0]}
{"end":4}
)";

TEST_CASE("each call costs what the trace says, and there are prices") {
  const TemporaryFile file("costs.jsonl");
  file.write(kTrace);
  RecordedCosts costs(file.path());
  CHECK(costs.facts().copy_ns(100) == 25);
  CHECK(costs.facts().map_ns == 5000);
  CHECK(costs.facts().drain_ns == 8);
  CHECK(costs.begin_call("f") == 3);
  CHECK(costs.call() == 0);
  CHECK(costs.begin_call("g") == 9);  // contents that change unseen are no call
  CHECK(costs.call() == 1);
  CHECK_THROWS_WITH(costs.begin_call("h"), ContainsSubstring("has 2 calls, and the job makes one"));
}

TEST_CASE("another operator than the trace has is refused by name") {
  const TemporaryFile file("costs.jsonl");
  file.write(kTrace);
  RecordedCosts costs(file.path());
  costs.begin_call("f");
  CHECK_THROWS_WITH(costs.begin_call("f"), ContainsSubstring("call 1 is g, but the job calls f"));
  CHECK(costs.begin_call("g") == 9);  // nothing has changed
}

TEST_CASE("files that are no trace are refused, with the line") {
  const TemporaryFile file("costs.jsonl");
  file.write(kTrace + "{\"op\":\"f\"}\n");
  CHECK_THROWS_WITH(RecordedCosts(file.path()), ContainsSubstring(":7: \"ns\" is missing"));
  file.write("what\n");
  CHECK_THROWS_WITH(RecordedCosts(file.path()), ContainsSubstring(":1: not JSON"));
  CHECK_THROWS_WITH(RecordedCosts("/no/such/file"), ContainsSubstring("cannot be read"));
}

}  // namespace
}  // namespace tidepool::remat
