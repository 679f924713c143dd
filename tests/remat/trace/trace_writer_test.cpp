#include "remat/trace/trace_writer.h"

#include "remat/trace/trace_format.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::plan {
namespace {

TEST_CASE("what is written is read again, plain and compressed") {
  for (const char* name : {"round.jsonl", "round.jsonl.gz"}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const Trace trace = random_trace(seed, 200);
      const TemporaryFile file(name);
      write_trace(trace, file.path());
      INFO("seed " << seed);
      CHECK(difference(trace, read_trace(file.path())) == "");
    }
  }
}

TEST_CASE("names are written as JSON has them") {
  const TemporaryFile file("names.jsonl");
  const std::string name = "a \"quoted\\ name\"\n";
  {
    TraceFacts facts;
    facts.name = name;
    TraceWriter writer(file.path(), facts);
    OperatorCallEntry call;
    call.name = name;
    writer.call(call);
    writer.finish();
  }
  const Trace trace = read_trace(file.path());
  CHECK(trace.facts.name == name);
  REQUIRE(trace.names.size() == 1);
  CHECK(trace.names[0] == name);
}

}  // namespace
}  // namespace tidepool::plan
