// Policy: what evicting a storage would cost. The allocator finds the room; a policy only prices.
// The price is of the whole storage: windows and sets of blocks are weighed by the sum of their
// prices. Price ÷ bytes is the heuristic h of the papers that evict one storage after the other,
// the least h first (DTR's loop): a policy whose h divides by the size leaves that division out,
// one whose h does not multiplies by the size.
// A policy may cache per storage (Storage::cost_above, cost_below and their epochs) and keep a
// union-find over values (Value::component) or a list of them (Value::changed); it is told of every
// change of availability.
// Not thread safe: the device's lock is held. A policy is deterministic: same calls, same prices.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>

#include "allocator/arena/reclaimer.h"
#include "remat/lineage/lineage_store.h"

namespace tidepool::remat {

class StepHistory;
struct StepPlan;

// What a price depends on besides the storage and its neighbourhood.
struct Circumstances {
  uint64_t staleness_ns = 1;     // since the last access, on the logical clock; at least 1
  size_t free_beside_bytes = 0;  // free bytes that touch the block; 0 unless the policy asks
};

class Policy {
 public:
  virtual ~Policy() = default;

  // The price of evicting `storage`, in whatever unit the policy has.
  // Requires: it is resident and its value has a producer.
  virtual double price(Storage& storage, const Circumstances& now) = 0;

  // The price, in the unit of price(), of `ns` that are surely spent on making room of the storage:
  // on copying its contents elsewhere, or on moving pages. Nothing: the policy weighs no such
  // thing, and nothing is copied, as in the papers.
  virtual std::optional<double> time_price(uint64_t ns, const Circumstances& now) const {
    static_cast<void>(ns), static_cast<void>(now);
    return std::nullopt;
  }

  // Whether prices depend on Circumstances::free_beside_bytes.
  virtual bool asks_for_free_beside() const { return false; }

  // Whether a request may be served from what an earlier search found cheapest, as long as that
  // costs no more than what was left out did; else each search is exact, as in the papers.
  virtual bool allows_shortlists() const { return false; }

  // Which way to make room for the requests of a search, after begin_search().
  virtual Preference preference() const { return Preference::kCheapest; }

  // `value` has just become available, or has just become unavailable (evicted, overwritten,
  // dead while something reads it), or, being evicted, has just lost its storage, or, unavailable,
  // has got a reader. All its edges are in place.
  virtual void availability_changed(Value& value) { static_cast<void>(value); }

  // `value` is about to be freed and has a `component` or has `changed`: both 0 afterwards.
  virtual void value_dies(Value& value) { static_cast<void>(value); }

  virtual void begin_search() {}

  // Drops all that it keeps in values and storages, as if it had priced nothing and been told of no
  // change; costs cached in storages may stay, for others to drop.
  virtual void forget_all() {}

  // What a plan says of the steps to come, for a policy that follows one.
  virtual void set_plan(const StepPlan& plan) { static_cast<void>(plan); }

  // What the runtime has to tell of operators and steps, for a policy that looks ahead.
  virtual StepHistory* step_history() { return nullptr; }

  // That it keeps now, beside what is in values and storages.
  virtual size_t bookkeeping_bytes() const { return 0; }

  // Aborts if a cached price differs from what a computation from nothing gives.
  virtual void check_invariants() {}

  // Units of a fixed price in 1.
  double unit() const { return unit_; }

  // A price as the allocator sums it: fixed-point, never zero (only free blocks are free), never
  // above Price::kGreatest.
  Price fixed(double price) const {
    const double scaled = price * unit_;
    if (!(scaled < static_cast<double>(Price::kGreatest))) return {Price::kGreatest, false};
    return {scaled < 1 ? 1 : static_cast<uint64_t>(scaled), false};
  }

 protected:
  // Time by time: a ratio from 2^-30 on, up to 2^14.
  static constexpr int kRatioBits = 30;
  // Bits after the binary point in fixed prices; Price holds 44 in all.
  explicit Policy(int fraction_bits = kRatioBits) : unit_(std::ldexp(1.0, fraction_bits)) {}

 private:
  const double unit_;
};

}  // namespace tidepool::remat
