#include "bench/allocator/trace.h"

#include <sstream>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/refusal.h"

namespace tidepool::bench {
namespace {

const std::string kRmm = "Thread,Time,Action,Pointer,Size,Stream\n";
const std::string kSnapshot = "Device,Action,Address,Size,Stream\n";

std::vector<Trace> parse(const std::string& text) {
  std::istringstream log(text);
  return parse_log(log, "a.csv");
}

// What parse_log() says to the text, or "".
std::string refusal(const std::string& text) {
  return test::refusal_by<std::runtime_error>([&] { (void)parse(text); });
}

TEST_CASE("a log of RMM's becomes a trace") {
  const std::vector<Trace> traces = parse(kRmm +
                                          "1,09:00:00.1,allocate,0x7f00,1000,0x0\n"
                                          "2,09:00:00.2,allocate,0x8f00,24,0x55\n"
                                          "1,09:00:00.3,allocate failure,0x0,99999,0x0\n"
                                          "1,09:00:00.4,free,0x7f00,1000,0x0\r\n"
                                          "\n"
                                          "1,09:00:00.5,allocate,0x7f00,8,0x55\n");
  REQUIRE(traces.size() == 1);
  const Trace& trace = traces[0];
  CHECK(trace.name == "a.csv");
  REQUIRE(trace.events.size() == 4);
  CHECK(trace.blocks == 3);
  CHECK(trace.streams == 2);
  CHECK(trace.live_peak_bytes == 1024);
  CHECK(trace.events[1].stream == StreamId{1});
  CHECK_FALSE(trace.events[2].allocates);
  CHECK(trace.events[2].block == 0);
  CHECK(trace.events[2].bytes == 1000);
  CHECK(trace.events[3].block == 2);
}

TEST_CASE("a snapshot's log becomes a trace for each device") {
  const std::vector<Trace> traces = parse(kSnapshot +
                                          "0,segment_alloc,0x100,2097152,0x0\n"
                                          "0,alloc,0x100,512,0x0\n"
                                          "1,alloc,0x100,1024,0x0\n"
                                          "0,free_requested,0x100,512,0x0\n"
                                          "0,alloc,0x200,512,0x0\n"  // the first is not free yet
                                          "0,free_completed,0x100,512,0x0\n"
                                          "1,free_completed,0x900,512,0x0\n");
  REQUIRE(traces.size() == 2);
  CHECK(traces[0].name == "a.csv[0]");
  CHECK(traces[0].live_peak_bytes == 1024);
  CHECK(traces[0].events.size() == 3);
  CHECK(traces[0].unknown_frees == 0);
  CHECK(traces[1].events.size() == 1);
  CHECK(traces[1].unknown_frees == 1);
}

TEST_CASE("what is no log is refused, naming file, line and reason") {
  CHECK(refusal("") == "a.csv:1: the file is empty");
  CHECK(refusal("a,b\n").find("a.csv:1: expected the header 'Thread,Time") == 0);
  CHECK(refusal(kRmm).find("there is no request in it") != std::string::npos);
  CHECK(refusal(kRmm + "1,t,allocate,0x1,8\n") == "a.csv:2: expected 6 fields, found 5");
  CHECK(refusal(kRmm + "1,t,allocate,0x1,8,0,9\n") == "a.csv:2: expected 6 fields, found 7");
  CHECK(refusal(kRmm + "1,t,allocate,0x1,-8,0\n") == "a.csv:2: Size: '-8' is no number");
  CHECK(refusal(kRmm + "1,t,allocate,0x1,,0\n") == "a.csv:2: Size: '' is no number");
  CHECK(refusal(kRmm + "1,t,allocate,0x,8,0\n") == "a.csv:2: address: '0x' is no number");
  CHECK(refusal(kRmm + "1,t,allocate,0x1,8,x\n") == "a.csv:2: Stream: 'x' is no number");
  CHECK(refusal(kRmm + "1,t,allocate,0x1,18446744073709551615,0\n")
            .find("a.csv:2: Size: 18446744073709551615 is more") == 0);
  CHECK(refusal(kRmm + "1,t,alocate,0x1,8,0\n").find("a.csv:2: Action: 'alocate'") == 0);
  CHECK(refusal(kRmm + "1,t,free,0x1,8,0\n") == "a.csv:2: free of 0x1, which is not allocated");
  CHECK(refusal(kRmm + "1,t,allocate,0x1,8,0\n1,t,allocate,0x1,8,0\n") ==
        "a.csv:3: 0x1 is allocated again before it was freed");
  CHECK(refusal(kSnapshot + "0,allocate,0x1,8,0\n").find("a.csv:2: Action: 'allocate'") == 0);
  CHECK_THROWS_AS(read_log("no/such/file.csv"), std::runtime_error);
}

TEST_CASE("requests of no bytes are left out, with their frees") {
  const std::vector<Trace> traces =
      parse(kRmm + "1,t,allocate,0x0,0,0\n1,t,free,0x0,0,0\n1,t,allocate,0x10,8,0\n");
  CHECK(traces[0].events.size() == 1);
}

}  // namespace
}  // namespace tidepool::bench
