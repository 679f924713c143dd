#include "bench/remat/checkpoints/mimose.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "allocator/base/check.h"

namespace tidepool::remat {
namespace {

// Blocks that free more than this share of what the first of a bucket frees belong to it.
constexpr double kBucket = 0.9;

}  // namespace

// Solves the normal equations by elimination; x is scaled to 1, so that they are well conditioned.
Quadratic::Quadratic(std::span<const Point> points) {
  std::set<double> different;
  for (const Point& point : points) {
    different.insert(point.x);
    scale_ = std::max(scale_, std::abs(point.x));
  }
  const size_t terms = std::min<size_t>(different.size(), factors_.size());
  double rows[3][4] = {};
  for (const Point& point : points) {
    const double x = point.x / scale_;
    const double powers[3] = {1, x, x * x};
    for (size_t i = 0; i < terms; ++i) {
      for (size_t k = 0; k < terms; ++k) rows[i][k] += powers[i] * powers[k];
      rows[i][3] += powers[i] * point.y;
    }
  }
  for (size_t i = 0; i < terms; ++i) {
    for (size_t below = i + 1; below < terms; ++below) {
      const double factor = rows[below][i] / rows[i][i];
      for (size_t k = i; k < 4; ++k) rows[below][k] -= factor * rows[i][k];
    }
  }
  for (size_t i = terms; i-- > 0;) {
    double rest = rows[i][3];
    for (size_t k = i + 1; k < terms; ++k) rest -= rows[i][k] * factors_[k];
    factors_[i] = rest / rows[i][i];
  }
}

double Quadratic::operator()(double x) const {
  x /= scale_;
  return factors_[0] + x * (factors_[1] + x * factors_[2]);
}

CheckpointedBlocks take_blocks(std::span<const double> saved_bytes, double target_bytes) {
  std::vector<size_t> order(saved_bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return saved_bytes[a] > saved_bytes[b]; });
  // Buckets of about equal blocks, the last ones of the network first in each.
  for (auto begin = order.begin(); begin != order.end();) {
    const double least = kBucket * saved_bytes[*begin];
    const auto end =
        std::find_if(begin, order.end(), [&](size_t each) { return saved_bytes[each] < least; });
    std::sort(begin, end, std::greater<>());
    begin = end;
  }
  CheckpointedBlocks taken(saved_bytes.size());
  double freed = 0;
  while (freed < target_bytes && !order.empty()) {
    const auto enough = std::find_if(order.rbegin(), order.rend(), [&](size_t each) {
      return saved_bytes[each] >= target_bytes - freed;
    });
    const auto pick = enough == order.rend() ? order.end() - 1 : enough.base() - 1;
    taken[*pick] = true;
    freed += saved_bytes[*pick];
    order.erase(pick);
  }
  return taken;
}

std::optional<CheckpointedBlocks> sublinear_plan(const CheckpointedStep& step,
                                                 size_t budget_bytes) {
  const std::vector<double> saved(step.saved_bytes().begin(), step.saved_bytes().end());
  double target = 0;
  while (true) {
    CheckpointedBlocks blocks = take_blocks(saved, target);
    const size_t peak_bytes = step.cost(blocks).peak_bytes;
    if (peak_bytes <= budget_bytes) return blocks;
    if (std::find(blocks.begin(), blocks.end(), false) == blocks.end()) return std::nullopt;
    double freed = 0;
    for (size_t k = 0; k < blocks.size(); ++k) freed += blocks[k] ? saved[k] : 0;
    target = std::max(target, freed) + static_cast<double>(peak_bytes - budget_bytes);
  }
}

void Mimose::measure(double size, const CheckpointedStep& step) {
  const std::span<const size_t> saved = step.saved_bytes();
  blocks_.resize(saved.size());
  auto peak_bytes = static_cast<double>(step.measuring_cost().peak_bytes);
  for (size_t k = 0; k < saved.size(); ++k) {
    blocks_[k].push_back({size, static_cast<double>(saved[k])});
    peak_bytes += static_cast<double>(saved[k]);
  }
  peaks_.push_back({size, peak_bytes});
}

void Mimose::fit() {
  for (const auto& points : blocks_) fits_.emplace_back(points);
  fits_.emplace_back(peaks_);
}

const CheckpointedBlocks& Mimose::plan(double size, size_t budget_bytes) {
  TIDEPOOL_CHECK(!peaks_.empty(), "no step was measured");
  if (fits_.empty()) fit();
  const double rounded = std::ceil(size / quantum_) * quantum_;
  const auto [found, is_new] = plans_.try_emplace(rounded);
  if (!is_new) return found->second;
  std::vector<double> saved;
  for (size_t k = 0; k < blocks_.size(); ++k) saved.push_back(std::max(fits_[k](rounded), 0.0));
  found->second = take_blocks(saved, fits_.back()(rounded) - static_cast<double>(budget_bytes));
  return found->second;
}

}  // namespace tidepool::remat
