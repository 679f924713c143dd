// CheckpointedStep: a training step of which some blocks of layers run under a checkpoint, as with
// torch.utils.checkpoint: what a block makes for the backward pass, its output excepted, goes when
// it has run, and the block runs once more when the backward pass comes to it. For comparison: jobs
// choose single results.
// Bytes are fungible and are counted operator by operator; a block runs again as far as its results
// are needed. Both favour the methods that are compared: on a device memory is fragmented, and
// PyTorch's oldest checkpoints run whole blocks.
// Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "remat/plan/chain/held_step.h"
#include "remat/plan/chain/turn.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {

// Blocks: by block, whether it runs under a checkpoint.
using CheckpointedBlocks = std::vector<bool>;

// StepBlocks: how the forward pass of a step is divided.
struct StepBlocks {
  size_t operators = 0;      // of the whole step, so that other steps can be told apart
  std::vector<Moment> ends;  // by block: the operator behind its last one; the last is the turn
};

// Finds blocks of a step: they end where no more bytes lie than at the places around, which is
// where layers of a network meet, each of them frees at least as much as it keeps, and there are
// at most so many, and the last one. No block if nothing waits for a backward pass.
inline constexpr size_t kMostBlocks = 32;
StepBlocks find_blocks(const Trace& step);

struct CheckpointedCost {
  size_t peak_bytes = 0;
  uint64_t replay_ns = 0;  // of what runs again
};

class CheckpointedStep {
 public:
  // `blocks`: found in a step that does the same with values of other sizes. Requires: as many
  // operators; `step` outlives this.
  CheckpointedStep(const Trace& step, StepBlocks blocks);
  CheckpointedStep(const CheckpointedStep&) = delete;
  CheckpointedStep& operator=(const CheckpointedStep&) = delete;

  // What each block frees under a checkpoint until the backward pass comes to it.
  std::span<const size_t> saved_bytes() const { return saved_bytes_; }
  CheckpointedCost cost(const CheckpointedBlocks& blocks) const;
  // The step in which Mimose measures: each block runs twice in the forward pass, first without
  // and then under a checkpoint, and once more in the backward pass, where it takes no less memory
  // than while it is measured.
  CheckpointedCost measuring_cost() const;

 private:
  Schedule schedule(const CheckpointedBlocks& blocks) const;

  const StepBlocks blocks_;
  HeldStep step_;
  std::optional<Turn> turn_;  // none without blocks
  std::optional<Held> others_;
  std::vector<size_t> saved_bytes_;
};

}  // namespace tidepool::remat
