#include "bench/remat/checkpoints/checkpointed_step.h"

#include <algorithm>
#include <span>
#include <vector>

#include "remat/trace/trace_peak.h"
#include "tests/bench/remat/checkpoints/block_network.h"
#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

constexpr size_t kWide = 100, kNarrow = 10;

TEST_CASE("blocks end where one narrow result lies; the last one is the loss, before the turn") {
  const StepBlocks blocks = find_blocks(block_network(kWide, kNarrow));
  CHECK(blocks.operators == 10);
  CHECK(blocks.ends == std::vector<Moment>{2, 4, 6, 7});
}

TEST_CASE("a long network has few blocks") {
  const Trace trace = network_trace(1000, 100);
  const StepBlocks blocks = find_blocks(trace);
  CHECK(blocks.ends.size() <= kMostBlocks + 1);
  CHECK(blocks.ends.size() > kMostBlocks / 2);
  CHECK(std::is_sorted(blocks.ends.begin(), blocks.ends.end()));
}

TEST_CASE("between equal results, blocks free as much as they keep") {
  const Trace trace = network_trace(12, 100);
  const StepBlocks blocks = find_blocks(trace);
  REQUIRE(blocks.ends.size() > 4);
  const CheckpointedStep step(trace, blocks);
  for (size_t k = 0; k + 1 < blocks.ends.size(); ++k) CHECK(step.saved_bytes()[k] >= 100);
}

TEST_CASE("a trace in which nothing waits has no blocks") {
  TraceBuilder builder({});
  builder.root(10, RootKind::kInput);
  builder.step();
  const Trace trace = builder.take();
  CHECK(find_blocks(trace).ends.empty());
  const CheckpointedStep step(trace, find_blocks(trace));
  CHECK(step.cost({}).replay_ns == 0);
  CHECK(step.measuring_cost().replay_ns == 0);
}

TEST_CASE("a block under a checkpoint frees all but its output until its backward pass") {
  const Trace trace = block_network(kWide, kNarrow);
  const CheckpointedStep step(trace, find_blocks(trace));
  const std::span<const size_t> saved = step.saved_bytes();
  CHECK(std::vector<size_t>(saved.begin(), saved.end()) ==
        std::vector<size_t>{kWide, kWide, kWide, kNarrow});
  // At the loss: four narrow values, three wide ones, a gradient.
  const CheckpointedCost none = step.cost({false, false, false, false});
  CHECK(none.peak_bytes == 4 * kNarrow + 3 * kWide + kNarrow);
  CHECK(none.peak_bytes == trace_peak(trace).peak_bytes);
  CHECK(none.replay_ns == 0);
  // Only the wide value is needed again, not the output.
  const CheckpointedCost first = step.cost({true, false, false, false});
  CHECK(first.peak_bytes == none.peak_bytes - kWide);
  CHECK(first.replay_ns == 10);
  // In the last block's backward pass: three narrow values, one wide one, two gradients.
  const CheckpointedCost three = step.cost({true, true, true, false});
  CHECK(three.peak_bytes == 3 * kNarrow + kWide + 2 * kNarrow);
  CHECK(three.replay_ns == 30);
  // The loss is computed again: what it reads stays until then.
  const CheckpointedCost all = step.cost({true, true, true, true});
  CHECK(all.peak_bytes == three.peak_bytes + kNarrow);
  CHECK(all.replay_ns == 31);
}

TEST_CASE("measuring runs each block once more") {
  const Trace trace = block_network(kWide, kNarrow);
  const CheckpointedStep step(trace, find_blocks(trace));
  const CheckpointedCost all = step.cost({true, true, true, true});
  CHECK(step.measuring_cost().replay_ns == all.replay_ns + 3 * (10 + 5) + 1);
  CHECK(step.measuring_cost().peak_bytes == all.peak_bytes);
}

TEST_CASE("blocks of one size serve steps of other sizes") {
  const StepBlocks blocks = find_blocks(block_network(kWide, kNarrow));
  const Trace trace = block_network(7 * kWide, kNarrow);
  const CheckpointedStep step(trace, blocks);
  CHECK(step.cost({true, true, false, false}).peak_bytes == 5 * kNarrow + 7 * kWide);
}

}  // namespace
}  // namespace tidepool::remat
