// Policy: what evicting a storage would cost. The allocator finds the room; a policy only prices.
// A policy may cache per storage (Storage::cost_cached, cost_epoch) and keep a union-find over
// values (Value::component); it is told of every change of availability.
// Not thread safe: the device's lock is held. A policy is deterministic: same calls, same prices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "allocator/reclaimer.h"
#include "remat/lineage_store.h"

namespace tidepool::remat {

class Policy {
 public:
  virtual ~Policy() = default;

  // Time to bring `storage` back, and whatever else its eviction would cost, in ns.
  // Requires: it is resident and its value has a producer.
  virtual uint64_t projected_cost(Storage& storage) = 0;

  // `value` has just become available, or has just become unavailable (evicted, overwritten,
  // dead while something reads it), or, being evicted, has just lost its storage. All its edges
  // are in place.
  virtual void availability_changed(Value& value) { static_cast<void>(value); }

  // `value` is about to be freed and has a `component`, which must be 0 afterwards.
  virtual void value_dies(Value& value) { static_cast<void>(value); }

  virtual void begin_search() {}

  // Aborts if a cached price differs from what a computation from nothing gives.
  virtual void check_invariants() {}
};

// Cost per ns of staleness, in 24-bit fixed point; never zero (only free blocks are free), never
// above Price::kGreatest. Saturates at a ratio of 2^20.
inline Price price_of(uint64_t cost_ns, uint64_t staleness_ns) {
  constexpr int kFraction = 24;
  constexpr uint64_t kMostNs = uint64_t{1} << 39;  // nine minutes
  const uint64_t cost = cost_ns < kMostNs ? cost_ns : kMostNs;
  const uint64_t value = (cost << kFraction) / (staleness_ns > 0 ? staleness_ns : 1);
  if (value == 0) return {1, false};
  return {value < Price::kGreatest ? value : Price::kGreatest, false};
}

// Throws: std::invalid_argument naming an unknown policy and the known ones.
std::unique_ptr<Policy> make_policy(const std::string& name, LineageStore& store);

}  // namespace tidepool::remat
