#include "remat/policies/baselines/dtr_eq.h"

#include <algorithm>

namespace tidepool::remat {

double DtrEqPolicy::price(Storage& storage, const Circumstances& now) {
  const Value& value = *storage.current;
  found_.clear();
  for_each_kin(value,
               [&](const Value& other) { found_.push_back(components_.find(other.component)); });
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  uint64_t cost = value.producer->cost_ns;
  for (const Components::Node node : found_) cost += components_.sum_ns(node);
  return static_cast<double>(cost) / static_cast<double>(now.staleness_ns);
}

}  // namespace tidepool::remat
