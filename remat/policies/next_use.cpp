#include "remat/policies/next_use.h"

#include <algorithm>
#include <cmath>

namespace tidepool::remat {

double NextUsePolicy::price(Storage& storage, const Circumstances& now) {
  // A position that was found under another expectation means nothing now.
  if (storage.needed_step != step_history_.expectation()) storage.below_generation = 0;
  const auto cost_ns = static_cast<double>(cost(storage));
  const StepHistory::Position own = step_history_.next_use(storage);
  if (own == StepHistory::kUnknown) return cost_ns / static_cast<double>(now.staleness_ns);
  // When something that is evicted below is used, it is restored, and the region changes.
  const uint64_t distance_ns = step_history_.time_until_ns(std::min(own, storage.needed_below));
  const auto staleness = static_cast<double>(now.staleness_ns);
  const auto distance = static_cast<double>(distance_ns > 0 ? distance_ns : 1);
  const double mean = std::sqrt(staleness * distance);
  if (share_ == 0.5) return cost_ns / mean;
  if (share_ == 1) return cost_ns / distance;
  return cost_ns / std::sqrt(mean * (share_ < 0.5 ? staleness : distance));  // a quarter, or three
}

uint64_t NextUsePolicy::compute_above(const Storage& storage) {
  const Value& value = *storage.current;
  return value.producer->cost_ns + neighbourhood_.ancestors_ns(value);
}

uint64_t NextUsePolicy::compute_below(Storage& storage) {
  const Value& value = *storage.current;
  storage.needed_step = step_history_.expectation();
  storage.needed_below = StepHistory::kNever;
  neighbourhood_.for_each_evicted_below(value, [&](const Storage& below) {
    const StepHistory::Position use = step_history_.next_use(below);
    if (use != StepHistory::kUnknown) storage.needed_below = std::min(storage.needed_below, use);
  });
  return neighbourhood_.needed_descendants_ns(value);
}

void NextUsePolicy::check_invariants() {
  CachedPolicy::check_invariants();
  step_history_.check_invariants();
}

}  // namespace tidepool::remat
