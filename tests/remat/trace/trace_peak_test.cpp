#include "remat/trace/trace_peak.h"

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

TEST_CASE("the peak counts outputs and workspace beside all that lives") {
  const Trace trace = trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu","alignment":16}
{"root":0,"bytes":100}
{"op":"f","ns":1,"in":[0],"out":[[1,20]],"workspace":50}
{"op":"g","ns":1,"in":[1],"out":[[2,10]]}
{"release":1}
{"op":"h","ns":1,"in":[2],"out":[[3,1]],"write":[[2,"update"]]}
{"end":5}
)");
  const TracePeak peak = trace_peak(trace);
  CHECK(peak.peak_bytes == 112 + 32 + 64);
  CHECK(peak.floor_bytes == 112 + 32 + 64);
  CHECK(peak.end_bytes == 112 + 16 + 16);
}

TEST_CASE("in a trace with blocks the peak is that of the blocks") {
  const Trace trace = trace_of(R"({"tidepool_trace":2,"name":"t","device":"cpu","alignment":64}
{"block":0,"bytes":8}
{"block":1,"bytes":16}
{"root":0,"bytes":8,"block":0}
{"op":"f","ns":3,"in":[0],"out":[[1,16,1],[2,30,2]],"blocks":[[2,100],[3,300],3,[4,9]]}
{"free":4}
{"release":2}
{"step":1}
{"end":7}
)");
  const TracePeak peak = trace_peak(trace);
  CHECK(peak.peak_bytes == 64 + 64 + 128 + 320);
  CHECK(peak.end_bytes == 64 + 64);
}

TEST_CASE("the floor is what one operator needs beside the roots") {
  const Trace trace = network_trace(20, 1000);
  const TracePeak peak = trace_peak(trace);
  CHECK(peak.peak_bytes == 1000 * (1 + 20 + 2));  // the input, all layers, two gradients
  CHECK(peak.floor_bytes == 1000 * (1 + 3));
  CHECK(peak.end_bytes == 1000 * 2);
}

TEST_CASE("roots that die lower the floor") {
  const Trace trace = trace_of(R"({"tidepool_trace":1,"name":"t","device":"cpu"}
{"root":0,"bytes":100}
{"release":0}
{"root":1,"bytes":30}
{"end":3}
)");
  CHECK(trace_peak(trace).floor_bytes == 100);
  CHECK(trace_peak(trace).end_bytes == 30);
}

}  // namespace
}  // namespace tidepool::remat
