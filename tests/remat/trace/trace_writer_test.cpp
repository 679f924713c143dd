#include "remat/trace/trace_writer.h"

#include "remat/trace/trace_format.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
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

TEST_CASE("places are written once, before the first operator that is called there") {
  const TemporaryFile file("places.jsonl");
  const char* const here = R"({"lines":["a.py:1 f"]})";
  const char* const there = R"({"lines":["a.py:2 f"]})";
  {
    TraceWriter writer(file.path(), TraceFacts());
    for (const char* place : {here, there, here, static_cast<const char*>(nullptr)}) {
      OperatorCallEntry call;
      call.name = "f";
      call.place = place;
      writer.call(call);
    }
    writer.finish();
  }
  const std::string text = file.read();
  CHECK(text.substr(text.find('\n') + 1) ==
        R"({"place":0,"at":{"lines":["a.py:1 f"]}}
{"op":"f","ns":0,"place":0}
{"place":1,"at":{"lines":["a.py:2 f"]}}
{"op":"f","ns":0,"place":1}
{"op":"f","ns":0,"place":0}
{"op":"f","ns":0}
{"end":6}
)");
  CHECK(read_trace(file.path()).operators.size() == 4);
}

}  // namespace
}  // namespace tidepool::remat
