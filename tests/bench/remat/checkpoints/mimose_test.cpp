#include "bench/remat/checkpoints/mimose.h"

#include "tests/bench/remat/checkpoints/block_network.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

using Point = Quadratic::Point;

TEST_CASE("a quadratic goes through points that lie on one") {
  std::vector<Point> points;
  for (const double x : {1e6, 3e6, 4e6, 9e6}) points.push_back({x, 2 + 3 * x + 0.5 * x * x});
  const Quadratic fit(points);
  for (const double x : {0.0, 2e6, 2e7}) {
    const double y = 2 + 3 * x + 0.5 * x * x;
    CHECK_THAT(fit(x), Catch::Matchers::WithinAbs(y, 1e-6 * y + 1e3));
  }
}

TEST_CASE("a quadratic lies between points with the least squares") {
  const Quadratic fit(std::vector<Point>{{1, 0}, {1, 2}, {2, 5}, {2, 7}, {3, 14}, {3, 14}});
  CHECK_THAT(fit(1), Catch::Matchers::WithinAbs(1, 1e-9));
  CHECK_THAT(fit(2), Catch::Matchers::WithinAbs(6, 1e-9));
  CHECK_THAT(fit(3), Catch::Matchers::WithinAbs(14, 1e-9));
}

TEST_CASE("few sizes give a line or a constant") {
  CHECK_THAT(Quadratic(std::vector<Point>{{1, 3}, {2, 5}})(4), Catch::Matchers::WithinAbs(9, 1e-9));
  CHECK_THAT(Quadratic(std::vector<Point>{{1, 3}, {1, 5}})(4), Catch::Matchers::WithinAbs(4, 1e-9));
}

TEST_CASE("blocks are taken from the bucket of least bytes that suffices, the earliest first") {
  const std::vector<double> saved{50, 100, 95, 10};  // buckets: 95 and 100; 50; 10
  CHECK(take_blocks(saved, 0) == CheckpointedBlocks{false, false, false, false});
  CHECK(take_blocks(saved, 5) == CheckpointedBlocks{false, false, false, true});
  CHECK(take_blocks(saved, 40) == CheckpointedBlocks{true, false, false, false});
  CHECK(take_blocks(saved, 90) == CheckpointedBlocks{false, true, false, false});
  // None suffices: 10, then 50, and then the earliest that frees the missing 60.
  CHECK(take_blocks(saved, 120) == CheckpointedBlocks{true, true, false, true});
  CHECK(take_blocks(saved, 1000) == CheckpointedBlocks{true, true, true, true});
}

TEST_CASE("one plan for the largest size takes blocks until it fits") {
  const Trace trace = block_network(100, 10);
  const CheckpointedStep step(trace, find_blocks(trace));
  CHECK(sublinear_plan(step, 350) == CheckpointedBlocks{false, false, false, false});
  CHECK(sublinear_plan(step, 250) == CheckpointedBlocks{true, false, false, false});
  // No block frees 101 bytes: the loss comes first, and what it reads stays.
  CHECK(sublinear_plan(step, 249) == CheckpointedBlocks{true, true, false, true});
  CHECK(sublinear_plan(step, 159) == std::nullopt);
}

// A size of n has wide values of n² bytes, and narrow ones of n.
Mimose measured_mimose(const StepBlocks& blocks) {
  Mimose mimose(5);
  for (const size_t n : {10, 30, 20}) {
    const Trace trace = block_network(n * n, n);
    mimose.measure(static_cast<double>(n), CheckpointedStep(trace, blocks));
  }
  return mimose;
}

TEST_CASE("Mimose plans sizes that it has not met from fits, and counts one block twice") {
  const StepBlocks blocks = find_blocks(block_network(900, 30));
  const Trace trace = block_network(625, 25);
  const CheckpointedStep step(trace, blocks);
  // Its estimate of the peak is that of a step under checkpoints, and what all blocks free.
  constexpr size_t kEstimate = (625 + 6 * 25) + (3 * 625 + 25);
  CHECK(measured_mimose(blocks).plan(25, kEstimate) ==
        CheckpointedBlocks{false, false, false, false});
  CHECK(measured_mimose(blocks).plan(25, kEstimate - 625) ==
        CheckpointedBlocks{true, false, false, false});
  // The step itself would fit without a checkpoint.
  const size_t peak_bytes = step.cost({false, false, false, false}).peak_bytes;
  CHECK(peak_bytes == 3 * 625 + 5 * 25);
  CHECK(measured_mimose(blocks).plan(25, peak_bytes) ==
        CheckpointedBlocks{true, true, false, true});
}

TEST_CASE("Mimose rounds sizes up, and keeps its plans") {
  Mimose mimose = measured_mimose(find_blocks(block_network(900, 30)));
  const CheckpointedBlocks& plan = mimose.plan(25, 2000);
  CHECK(&mimose.plan(21, 2000) == &plan);
  CHECK(&mimose.plan(26, 2000) != &plan);
}

}  // namespace
}  // namespace tidepool::remat
