// Mimose: the planner of that name (IPDPS 2023), as its authors' programs have it, for comparison.
// It plans which blocks of a step run under a checkpoint, from a step's size alone: one number, of
// the input. In its first steps it measures what each block leaves for the backward pass, and the
// step's peak (CheckpointedStep::measuring_cost()). To these it fits polynomials of degree two by
// least squares, and for each size that it has no plan for yet it takes blocks greedily until what
// they free makes up for what the peak is above the budget.
// Its authors' choices are kept where they cost it something: the sum of a peak under checkpoints
// and of what all blocks free counts some bytes twice; blocks are taken without regard to time;
// where no single block frees enough, the earliest of those that free least is taken.
// Not thread safe.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "bench/remat/checkpoints/checkpointed_step.h"

namespace tidepool::remat {

// a + b x + c x², fitted by least squares. With fewer than three different x the degree is lower.
class Quadratic {
 public:
  struct Point {
    double x = 0, y = 0;
  };
  explicit Quadratic(std::span<const Point> points);
  double operator()(double x) const;

 private:
  double scale_ = 1;  // the fit is in x / scale_
  std::array<double, 3> factors_{};
};

// Takes blocks until they free at least `target_bytes`, or all are taken. Requires: no block frees
// less than nothing.
CheckpointedBlocks take_blocks(std::span<const double> saved_bytes, double target_bytes);

// The plan of a method that plans once, for the largest size, which is `step`: take_blocks() with a
// target that grows until the step fits the budget. Nothing if it does not fit with all blocks.
std::optional<CheckpointedBlocks> sublinear_plan(const CheckpointedStep& step, size_t budget_bytes);

class Mimose {
 public:
  // Sizes are rounded up to a multiple of `quantum` before they are planned for.
  explicit Mimose(double quantum) : quantum_(quantum) {}

  // A step of this size was measured.
  void measure(double size, const CheckpointedStep& step);
  // `budget_bytes`: without what is set aside for errors. Requires: a step was measured.
  const CheckpointedBlocks& plan(double size, size_t budget_bytes);

 private:
  void fit();

  const double quantum_;
  std::vector<std::vector<Quadratic::Point>> blocks_;  // bytes by size, block by block
  std::vector<Quadratic::Point> peaks_;
  std::vector<Quadratic> fits_;  // of the blocks, and then of the peak; empty until asked for
  std::map<double, CheckpointedBlocks> plans_;
};

}  // namespace tidepool::remat
