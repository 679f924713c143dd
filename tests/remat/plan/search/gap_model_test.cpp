#include "remat/plan/search/gap_model.h"

#include <vector>

#include "remat/trace/trace_peak.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

// x -> a -> b -> c, each of 100 bytes; then d is made of c and a, and all but d dies.
constexpr const char* kChain =
    "{\"tidepool_trace\":1,\"name\":\"chain\",\"device\":\"cpu\"}\n"
    "{\"root\":0,\"bytes\":100,\"kind\":\"input\"}\n"
    "{\"op\":\"a\",\"ns\":10,\"in\":[0],\"out\":[[1,100]]}\n"
    "{\"op\":\"b\",\"ns\":20,\"in\":[1],\"out\":[[2,100]]}\n"
    "{\"op\":\"c\",\"ns\":40,\"in\":[2],\"out\":[[3,100]],\"workspace\":30}\n"
    "{\"op\":\"d\",\"ns\":80,\"in\":[3,1],\"out\":[[4,100]]}\n"
    "{\"release\":1}\n{\"release\":2}\n{\"release\":3}\n{\"step\":1}\n{\"end\":9}\n";

TEST_CASE("a gap is the time between two uses that are no neighbours") {
  const GapModel model(trace_of(kChain));
  REQUIRE(model.values().size() == 4);
  REQUIRE(model.gaps().size() == 1);
  const GapModel::Gap gap = model.gaps()[0];
  CHECK(gap.value == 0);
  CHECK(gap.number == 1);
  CHECK(gap.begin == 1);
  CHECK(gap.end == 3);
  CHECK(model.values()[2].temporary_bytes == 30);
  CHECK(model.values()[3].lives_on);
}

TEST_CASE("what is dropped in a gap is made again at its end") {
  GapModel model(trace_of(kChain));
  const std::vector<GapChoice> kept = {GapChoice::kKept}, dropped = {GapChoice::kDropped};
  GapModel::Outcome outcome = model.evaluate(kept, 500);
  CHECK(outcome.time_ns == 150);
  CHECK(outcome.peak_bytes == 430);  // x, a, b, c and a workspace
  CHECK(outcome.peak_at == 2);
  CHECK(outcome.excess_bytes == 0);
  outcome = model.evaluate(dropped, 350);
  CHECK(outcome.time_ns == 160);
  CHECK(outcome.peak_bytes == 400);  // x, a, c, d
  CHECK(outcome.peak_at == 3);
  CHECK(outcome.excess_bytes == 50);
  CHECK(model.dropped(dropped) ==
        std::vector<DroppedGap>{{0, 1, false}, {0, 2, false}, {1, 1, false}, {2, 1, false}});
}

// The forward part of a network keeps a result for each layer; the backward part reads them in
// reverse order.
TEST_CASE("what was made again for something else stays only if it was dropped once") {
  GapModel model(network_trace(6, 100, 10));
  std::vector<GapChoice> choices(model.gaps().size(), GapChoice::kKept);
  const uint64_t base = model.evaluate(choices, SIZE_MAX).time_ns;
  std::vector<size_t> chosen;  // the gaps of the results of three layers in a row
  for (size_t k = 0; k < choices.size(); ++k) {
    if (model.gaps()[k].value >= 1 && model.gaps()[k].value <= 3) chosen.push_back(k);
  }
  REQUIRE(chosen.size() == 3);
  for (const size_t k : chosen) choices[k] = GapChoice::kDropped;
  CHECK(model.evaluate(choices, SIZE_MAX).time_ns == base + (3 + 2 + 1) * 10);
  for (const size_t k : chosen) choices[k] = GapChoice::kDroppedOnce;
  CHECK(model.evaluate(choices, SIZE_MAX).time_ns == base + 3 * 10);
}

// a is read by b, which is read again by e, and a by g at the end.
constexpr const char* kTwoGaps =
    "{\"tidepool_trace\":1,\"name\":\"gaps\",\"device\":\"cpu\"}\n"
    "{\"root\":0,\"bytes\":100,\"kind\":\"input\"}\n"
    "{\"op\":\"a\",\"ns\":10,\"in\":[0],\"out\":[[1,100]]}\n"
    "{\"op\":\"b\",\"ns\":20,\"in\":[1],\"out\":[[2,100]]}\n"
    "{\"op\":\"c\",\"ns\":40,\"in\":[2],\"out\":[[3,100]]}\n"
    "{\"op\":\"d\",\"ns\":40,\"in\":[3],\"out\":[[4,100]]}\n{\"release\":3}\n"
    "{\"op\":\"e\",\"ns\":40,\"in\":[4,2],\"out\":[[5,300]]}\n{\"release\":2}\n{\"release\":4}\n"
    "{\"op\":\"f\",\"ns\":40,\"in\":[5],\"out\":[[6,100]]}\n{\"release\":5}\n"
    "{\"op\":\"g\",\"ns\":80,\"in\":[6,1],\"out\":[[7,100]]}\n"
    "{\"release\":6}\n{\"release\":1}\n{\"step\":1}\n{\"end\":15}\n";

TEST_CASE("what is dropped after a reader leaves once that has been made again of it") {
  GapModel model(trace_of(kTwoGaps));
  REQUIRE(model.gaps().size() == 2);  // of a, and of b
  constexpr auto kDropped = GapChoice::kDropped, kAfter = GapChoice::kDroppedAfter;
  const auto peak = [&](GapChoice a, GapChoice b) {
    return model.evaluate(std::vector{a, b}, SIZE_MAX).peak_bytes;
  };
  CHECK(peak(GapChoice::kKept, kDropped) == 700);  // x, a, b, d, e
  CHECK(model.was_read(0));
  CHECK(peak(kAfter, kDropped) == 600);  // a has left
  const std::vector<GapChoice> choices = {kAfter, kDropped};
  CHECK(model.evaluate(choices, SIZE_MAX).time_ns == 270 + 20 + 10);
  CHECK(model.reader(0) == 1);
  CHECK(model.dropped(choices) == std::vector<DroppedGap>{{0, 1, false, 1},
                                                          {1, 1, false},
                                                          {0, 2, false},
                                                          {1, 2, false},
                                                          {2, 1, false},
                                                          {3, 1, false},
                                                          {4, 1, false},
                                                          {5, 1, false}});
  // Where nothing reads it, it stays.
  const std::vector<GapChoice> unread = {kAfter, GapChoice::kKept};
  CHECK(model.evaluate(unread, SIZE_MAX).time_ns == 270);
  CHECK(!model.reader(0));
  CHECK(!model.was_read(0));
  CHECK(model.dropped(unread)[0] == DroppedGap{0, 2, false});
}

TEST_CASE("with nothing dropped the model takes no more than the trace's peak, and its time") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Trace trace = network_trace(12, 1000, 100, seed);
    GapModel model(trace);
    const std::vector<GapChoice> kept(model.gaps().size(), GapChoice::kKept);
    const GapModel::Outcome outcome = model.evaluate(kept, SIZE_MAX);
    CHECK(outcome.time_ns == trace.baseline_ns());
    CHECK(outcome.peak_bytes <= trace_peak(trace).peak_bytes);
    CHECK(outcome.peak_bytes > trace_peak(trace).peak_bytes / 2);
  }
}

}  // namespace
}  // namespace tidepool::remat
