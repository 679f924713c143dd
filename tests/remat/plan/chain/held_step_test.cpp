#include "remat/plan/chain/held_step.h"

#include <algorithm>

#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

constexpr size_t kLayers = 12, kBytes = 1000;

TEST_CASE("a step holds what a count of its bytes says") {
  for (const uint64_t seed : {1, 2, 3}) {
    const Trace trace = network_trace(kLayers, kBytes, 1000, seed);
    CHECK(peak_of(HeldStep(trace).held, {}).bytes == trace_peak(trace).peak_bytes);
  }
}

TEST_CASE("most results wait at the end of the forward pass") {
  const Trace trace = network_trace(kLayers, kBytes);
  const HeldStep step(trace);
  const Moment turn = step.turn_of_most();
  CHECK(turn >= kLayers);
  CHECK(turn <= kLayers + 1);
  CHECK(step.turn_near(turn) <= turn);
  CHECK(step.results_at(turn).size() >= kLayers - 1);
}

TEST_CASE("without the results of the turn, a step holds less by these") {
  const Trace trace = network_trace(kLayers, kBytes);
  const HeldStep step(trace);
  const auto results = step.results_at(step.turn_of_most());
  const size_t turn = step.turn_of_most();
  const size_t held = step.held.by_operator()[turn];
  CHECK(step.others(results).by_operator()[turn] == held - results.size() * kBytes);
}

TEST_CASE("a segment that runs again before an operator adds to what is held then") {
  Held held(3);
  held.add(0, 2, 10);
  const std::vector<Schedule::ReplayPeak> replays{{1, 7}};
  CHECK(peak_of(held, replays).bytes == 17);
  CHECK(peak_of(held, replays).at == 1);
  CHECK(peak_of(held, replays, 2).bytes == 10);
}

TEST_CASE("a step in which nothing is read twice has no turn") {
  const Trace trace = trace_of(
      "{\"tidepool_trace\":1,\"name\":\"t\",\"device\":\"cpu\",\"alignment\":1}\n"
      "{\"root\":0,\"bytes\":10}\n"
      "{\"op\":\"a\",\"ns\":1,\"in\":[0],\"out\":[[1,100]]}\n{\"end\":2}\n");
  CHECK(HeldStep(trace).turn_of_most() == 0);
}

}  // namespace
}  // namespace tidepool::remat
