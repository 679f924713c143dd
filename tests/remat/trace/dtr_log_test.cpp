// A log of DTR with every instruction, and what its replay has to be, worked out by hand from the
// description of the log and of its simulator.
#include "remat/trace/dtr_log.h"

#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string kStart = R"({"INSTRUCTION":"CONSTANT","NAME":"x0"}
{"INSTRUCTION":"MEMORY","MEMORY":"999","NAME":"x0"}
{"ANNOTATION":"START","INSTRUCTION":"ANNOTATE"}
)";

// Numbers of storages are in the comments.
const std::string kWhole = kStart + R"({"INSTRUCTION":"CONSTANT","NAME":"x1"}
{"INSTRUCTION":"MEMORY","MEMORY":"100","NAME":"x1"}
{"DST":"x2","INSTRUCTION":"COPY","SRC":"x1"}
{"INSTRUCTION":"RELEASE","NAME":"x1"}
{"ARGS":["x2"],"INSTRUCTION":"CALL","NAME":"split","RESULT":["x3","x4"],"TIME":"50"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"x3"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"x3"}
{"INSTRUCTION":"MEMORY","MEMORY":"60","NAME":"x4"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"x4"}
{"ARGS":["x2","x3"],"INSTRUCTION":"CALL","NAME":"view","RESULT":["x5"],"TIME":"2"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"x5"}
{"ALIAS":"1","INSTRUCTION":"ALIAS","NAME":"x5"}
{"INSTRUCTION":"RELEASE","NAME":"x3"}
{"ARGS":["x4","x5"],"INSTRUCTION":"MUTATE","MUTATE":[1],"NAME":"relu_","TIME":"7"}
{"ANNOTATION":"BACKWARD","INSTRUCTION":"ANNOTATE"}
{"DST":"x6","INSTRUCTION":"COPY","SRC":"x4"}
{"DST":"x6","INSTRUCTION":"COPY_FROM","SRC":"x5"}
{"INSTRUCTION":"RELEASE","NAME":"x4"}
{"INSTRUCTION":"RELEASE","NAME":"x5"}
{"INSTRUCTION":"RELEASE","NAME":"x77"}
)";

std::vector<std::string> events_of(const Trace& trace) {
  std::vector<std::string> out;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == EventKind::kRoot) {
      out.push_back("root " + std::to_string(event.index));
    } else if (event.kind == EventKind::kRelease) {
      out.push_back("release " + std::to_string(event.index));
    } else {
      const TraceOperator& op = trace.operators[event.index];
      std::string text = trace.names[op.name] + " " + std::to_string(op.cost_ns) + ":";
      for (const StorageIndex read : trace.reads(op)) text += " r" + std::to_string(number(read));
      for (const TraceWrite& write : trace.writes(op)) {
        text += " w" + std::to_string(number(write.storage));
      }
      for (const StorageIndex made : trace.outputs(op)) {
        text += " o" + std::to_string(number(made)) + "=" +
                std::to_string(trace.storages[number(made)].bytes);
      }
      out.push_back(text);
    }
  }
  return out;
}

TEST_CASE("every instruction, mutation by copy as DTR's simulator has it") {
  const Trace trace = dtr_trace_of(kWhole, DtrMutation::kCopy);
  CHECK(events_of(trace) == std::vector<std::string>{
                                "root 0",                    // CONSTANT x1; its COPY is a handle
                                "split 50: r0 o1=40 o2=60",  // RELEASE x1: a constant stays
                                "view 2: r0 r1",             // x5 is a view of argument 1: x3's
                                                             // RELEASE x3: x5 still needs it
                                "relu_ 7: r2 r1 o3=40",      // x5 is now storage 3 …
                                "release 1",                 // … and nobody has storage 1 any more
                                                             // COPY_FROM: x6 goes from 2 to 3
                                "release 2",                 // RELEASE x4; x77 is unknown: ignored
                            });                              // RELEASE x5: x6 is left, at the end
  CHECK(trace.facts.name == "log");
  CHECK(trace.facts.alignment == 1);
  const TracePeak peak = trace_peak(trace);
  CHECK(peak.peak_bytes == 100 + 40 + 60 + 40);
  CHECK(peak.end_bytes == 100 + 40);
  CHECK(trace.baseline_ns() == 59);
}

TEST_CASE("every instruction, mutation in place") {
  const Trace trace = dtr_trace_of(kWhole, DtrMutation::kInPlace);
  CHECK(events_of(trace) == std::vector<std::string>{"root 0", "split 50: r0 o1=40 o2=60",
                                                     "view 2: r0 r1", "relu_ 7: r2 w1",
                                                     "release 2"});
  CHECK(trace_peak(trace).end_bytes == 100 + 40);
}

TEST_CASE("a mutation rebinds the named handle only, and of a constant, too") {
  const std::string log = kStart + R"({"INSTRUCTION":"CONSTANT","NAME":"x1"}
{"INSTRUCTION":"MEMORY","MEMORY":"10","NAME":"x1"}
{"ARGS":["x1"],"INSTRUCTION":"MUTATE","MUTATE":[0],"NAME":"add_","TIME":"1"}
{"DST":"x2","INSTRUCTION":"COPY","SRC":"x1"}
{"ARGS":["x1","x1"],"INSTRUCTION":"MUTATE","MUTATE":[0],"NAME":"mul_","TIME":"1"}
{"INSTRUCTION":"RELEASE","NAME":"x1"}
{"INSTRUCTION":"RELEASE","NAME":"x2"}
)";
  const Trace trace = dtr_trace_of(log, DtrMutation::kCopy);
  CHECK(events_of(trace) == std::vector<std::string>{"root 0", "add_ 1: r0 o1=10",
                                                     "mul_ 1: r1 o2=10", "release 2", "release 1"});
}

TEST_CASE("an operator without results, and results without bytes") {
  const std::string log =
      kStart + R"({"ARGS":[],"INSTRUCTION":"CALL","NAME":"none","RESULT":[],"TIME":"3"}
{"ARGS":[],"INSTRUCTION":"CALL","NAME":"empty","RESULT":["x1"],"TIME":"4"}
{"INSTRUCTION":"MEMORY","MEMORY":"0","NAME":"x1"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"x1"}
)";
  CHECK(events_of(dtr_trace_of(log, DtrMutation::kCopy)) ==
        std::vector<std::string>{"none 3:", "empty 4: o0=0"});
}

TEST_CASE("a broken log is refused with its line and the reason") {
  struct Case {
    std::string lines, reason;
  };
  const std::string constant = R"({"INSTRUCTION":"CONSTANT","NAME":"x1"})";
  const std::string memory = R"({"INSTRUCTION":"MEMORY","MEMORY":"8","NAME":"x1"})";
  const std::string call =
      R"({"ARGS":["x1"],"INSTRUCTION":"CALL","NAME":"f","RESULT":["x2"],"TIME":"3"})";
  const std::string both = constant + "\n" + memory + "\n";
  const Case cases[] = {
      {memory, "4: MEMORY of x1 follows no CONSTANT or CALL"},
      {constant + "\n" + call, "5: CALL where MEMORY of x1 is due"},
      {constant, "4: the log is cut short: no MEMORY of x1"},
      {constant + "\n" + R"({"INSTRUCTION":"MEMORY","MEMORY":"8","NAME":"x3"})", "5: MEMORY of x3"},
      {constant + "\n" + R"({"INSTRUCTION":"MEMORY","MEMORY":"-8","NAME":"x1"})",
       R"("MEMORY" is "-8"; expected a whole number from 0)"},
      {constant + "\n" + R"({"INSTRUCTION":"MEMORY","MEMORY":8,"NAME":"x1"})", "expected a text"},
      {both + constant, "6: tensor x1 exists already"},
      {call, "4: unknown tensor x1"},
      {both + call, "6: the log is cut short: 1 results of f are not described"},
      {both + call + "\n" + call, "7: CALL where MEMORY of x2 is due"},
      {both + call + "\n" + R"({"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"x2"})",
       "7: ALIAS where MEMORY of x2 is due"},
      {both + call + "\n" + R"({"INSTRUCTION":"MEMORY","MEMORY":"8","NAME":"x2"})" + "\n" +
           R"({"ALIAS":"1","INSTRUCTION":"ALIAS","NAME":"x2"})",
       "8: ALIAS of x2 names argument 1 of 1"},
      {R"({"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"x2"})", "4: ALIAS of x2 follows no MEMORY"},
      {both + R"({"ARGS":["x1"],"INSTRUCTION":"MUTATE","MUTATE":[1],"NAME":"f","TIME":"1"})",
       "6: MUTATE names argument 1 of 1"},
      {both + R"({"ARGS":["x1"],"INSTRUCTION":"MUTATE","MUTATE":["0"],"NAME":"f","TIME":"1"})",
       "expected a whole number"},
      {both + R"({"DST":"x1","INSTRUCTION":"COPY","SRC":"x1"})", "6: tensor x1 exists already"},
      {both + R"({"DST":"x2","INSTRUCTION":"COPY_FROM","SRC":"x1"})", "6: unknown tensor x2"},
      {both + R"({"DST":"x2","INSTRUCTION":"COPYFROM","SRC":"x1"})",
       "unknown instruction COPYFROM"},
      {R"({"NAME":"x1"})", R"(4: "INSTRUCTION" is missing)"},
  };
  for (const Case& each : cases) {
    INFO(each.lines);
    CHECK_THROWS_WITH(dtr_trace_of(kStart + each.lines + "\n", DtrMutation::kCopy),
                      ContainsSubstring(each.reason));
  }
  CHECK_THROWS_WITH(dtr_trace_of(constant + "\n" + memory + "\n", DtrMutation::kCopy),
                    ContainsSubstring("there is no START"));
}

TEST_CASE("a log is named after its file") {
  const TemporaryFile file("resnet.log");
  file.write(kWhole);
  CHECK_THAT(read_dtr_log(file.path(), DtrMutation::kCopy).facts.name,
             ContainsSubstring("-resnet"));
  file.write(kStart + "{}\n");
  CHECK_THROWS_WITH(read_dtr_log(file.path(), DtrMutation::kCopy),
                    ContainsSubstring(file.path() + ":4: "));
}

}  // namespace
}  // namespace tidepool::remat
