#include "remat/simulate/job/step_trace.h"

#include <algorithm>

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

const char* const kTwoSteps = R"({"tidepool_trace":1,"name":"t","device":"cuda","alignment":512}
{"root":0,"bytes":100,"kind":"parameter"}
{"root":1,"bytes":50}
{"op":"f","ns":5,"in":[0,1],"out":[[2,10]],"workspace":7}
{"op":"g","ns":5,"in":[2],"out":[[3,20]]}
{"release":2}
{"release":1}
{"step":1}
{"root":4,"bytes":50}
{"op":"f","ns":6,"in":[0,4,3],"out":[[5,10]],"site":9}
{"op":"h","ns":7,"in":[5],"write":[[0,"update"]],"recordable":false}
{"release":5}
{"step":2}
{"end":12}
)";

TEST_CASE("a step is followed by itself: what lives on is made anew in place of the old") {
  const char* const expected = R"({"tidepool_trace":1,"name":"t","device":"cuda","alignment":512}
{"root":0,"bytes":100,"kind":"parameter"}
{"root":1,"bytes":50}
{"op":"f","ns":5,"in":[0,1],"out":[[2,10]],"workspace":7}
{"op":"g","ns":5,"in":[2],"out":[[3,20]]}
{"release":2}
{"release":1}
{"step":1}
{"root":4,"bytes":50}
{"op":"f","ns":5,"in":[0,4],"out":[[5,10]],"workspace":7}
{"release":3}
{"op":"g","ns":5,"in":[5],"out":[[6,20]]}
{"release":5}
{"release":4}
{"step":2}
{"end":14}
)";
  CHECK(difference(twice(trace_of(kTwoSteps), 7), trace_of(expected)).empty());
}

TEST_CASE("a step is a trace whose roots are what it found alive") {
  const Trace trace = trace_of(kTwoSteps);
  CHECK(step_begin(trace, 12) == 7);
  CHECK(step_begin(trace, 7) == 0);
  const Trace second = step_trace(trace, 7, 12);
  const char* const expected = R"({"tidepool_trace":1,"name":"t","device":"cuda","alignment":512}
{"root":0,"bytes":100,"kind":"parameter"}
{"root":1,"bytes":20}
{"root":2,"bytes":50}
{"op":"f","ns":6,"in":[0,2,1],"out":[[3,10]],"site":9}
{"op":"h","ns":7,"in":[3],"write":[[0,"update"]],"recordable":false}
{"release":3}
{"step":1}
{"end":7}
)";
  CHECK(difference(second, trace_of(expected)).empty());
  CHECK(difference(step_trace(trace, 0, 7), step_trace(trace, 0, 6)).empty());  // marked anyway
}

TEST_CASE("a step finds storages to be what they have become") {
  const char* const steps = R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"root":0,"bytes":100,"kind":"input"}
{"role":0,"kind":"parameter"}
{"op":"f","ns":5,"in":[0],"out":[[1,10],[2,20]]}
{"role":1,"kind":"optimizer_state"}
{"step":1}
{"op":"g","ns":6,"in":[1]}
{"role":2,"kind":"buffer"}
{"step":2}
{"end":8}
)";
  const char* const expected = R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"root":0,"bytes":100,"kind":"parameter"}
{"root":1,"bytes":10,"kind":"optimizer_state"}
{"root":2,"bytes":20}
{"op":"g","ns":6,"in":[1]}
{"role":2,"kind":"buffer"}
{"step":1}
{"end":6}
)";
  CHECK(difference(step_trace(trace_of(steps), 5, 8), trace_of(expected)).empty());
}

TEST_CASE("operators after the last mark belong to the last step") {
  const Trace trace = trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"root":0,"bytes":10}
{"op":"f","ns":1,"in":[0],"out":[[1,10]]}
{"step":1}
{"op":"g","ns":2,"in":[1],"out":[[2,10]]}
{"release":1}
{"end":5}
)");
  CHECK(last_step_end(trace) == 2);
  CHECK(step_begin(trace, 5) == 0);
  const Trace step = step_trace(trace, 0, 5);
  CHECK(step.operators.size() == 2);
  CHECK(std::count_if(step.events.begin(), step.events.end(),
                      [](const TraceEvent& event) { return event.kind == EventKind::kStep; }) == 1);
  const Trace two = trace_of(kTwoSteps);
  CHECK(last_step_end(two) == two.events.size());
}

TEST_CASE("the whole of a trace of one step is that step") {
  const Trace trace = network_trace(12, 1000);
  const Trace step = step_trace(trace, step_begin(trace, trace.events.size()), trace.events.size());
  CHECK(step.operators.size() == trace.operators.size());
  CHECK(step.baseline_ns() == trace.baseline_ns());
  CHECK(step.events.back().kind == EventKind::kStep);
}

}  // namespace
}  // namespace tidepool::remat
