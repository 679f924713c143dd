// Policy: says what evicting a storage would cost. The allocator finds room by these prices; a
// policy only prices. A price is that of the whole storage, because windows and sets of blocks are
// compared by sums of prices. In the papers that evict one storage after the other, the one with
// the least h first (DTR's loop), h is price ÷ bytes: a policy whose h divides by the size leaves
// this division out, and one whose h does not divide by it multiplies by the size. A policy may
// cache costs in storages (Storage::cost_above, cost_below and their generations), and keep a
// union-find over values (Value::component) or a list of values (Value::changed_slot). It is told
// of every change of availability. Not thread safe: the device's lock is held. A policy is
// deterministic: the same calls give the same prices.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>

#include "allocator/arena/reclaimer.h"
#include "remat/lineage/lineage_store.h"
#include "remat/steps/step_plan.h"

namespace tidepool::remat {

class StepHistory;

// What a price depends on besides the storage and its neighbourhood.
struct Circumstances {
  uint64_t staleness_ns = 1;     // since the last access, on the logical clock; at least 1
  size_t free_beside_bytes = 0;  // free bytes that touch the block; 0 unless the policy asks
};

class Policy {
 public:
  virtual ~Policy() = default;

  // The price of evicting `storage`, in a unit that is the policy's own.
  // Requires: it is resident and its value has a producer.
  virtual double price(Storage& storage, const Circumstances& now) = 0;

  // The price, in the unit of price(), of time that is certainly spent on making room of the
  // storage: `ns` of moving its contents, or pages. nullopt: the policy does not weigh time, and
  // nothing is copied, as in the papers.
  virtual std::optional<double> time_price(uint64_t ns, const Circumstances& now) const {
    static_cast<void>(ns), static_cast<void>(now);
    return std::nullopt;
  }

  // The same for `ns` of copying the storage's contents elsewhere and back, where they are to be
  // used next in `until_use_ns` of operators' time; 0: nothing is foreseen for them.
  virtual std::optional<double> copy_price(const Storage& storage, uint64_t ns,
                                           uint64_t until_use_ns, const Circumstances& now) const {
    static_cast<void>(storage), static_cast<void>(until_use_ns);
    return time_price(ns, now);
  }

  // Whether contents that `copy_ns` would copy elsewhere and back, and whose operator takes
  // `cost_ns`, leave by a copy, where there is a place for one. price() holds for either way then,
  // and contents without a producer leave where nothing else makes room.
  // nullopt: contents leave by the cheaper way, of price() and time_price().
  virtual std::optional<bool> prefers_copy(uint64_t copy_ns, uint64_t cost_ns) const {
    static_cast<void>(copy_ns), static_cast<void>(cost_ns);
    return std::nullopt;
  }

  // Whether prices depend on Circumstances::free_beside_bytes.
  virtual bool asks_for_free_beside() const { return false; }

  // Whether a search may look only at the blocks that an earlier search found cheapest, as long as
  // these cost no more than those that it left out did. If not, each search is exact, as in the
  // papers.
  virtual bool allows_shortlists() const { return false; }

  // Which way of making room is preferred, after begin_search().
  virtual Preference preference() const { return Preference::kCheapest; }

  // `value` has just become available, or has just become unavailable (evicted, overwritten,
  // dead while something reads it), or, being evicted, has just lost its storage, or, unavailable,
  // has got a reader. All its edges are in place.
  virtual void availability_changed(Value& value) { static_cast<void>(value); }

  // `value` is about to be freed, or to lose its lineage, and has a `component` or a
  // `changed_slot`. Clears these.
  virtual void value_dies(Value& value) { static_cast<void>(value); }

  virtual void begin_search() {}

  // Drops all that the policy keeps in values, as if it had priced nothing and been told of no
  // change. Costs that it has cached in storages may stay; others drop them.
  virtual void forget_all() {}

  // Whether prices are those of a plan now.
  virtual bool follows_plan() const { return false; }
  // Gives a plan for the steps to come to a policy that follows one.
  virtual void set_plan(const StepPlan& plan) { static_cast<void>(plan); }
  // Does so without the lock, and also for the step under way.
  virtual void post_plan(StepPlan plan) { static_cast<void>(plan); }

  // For a policy that looks ahead: the history to which the runtime reports operators and steps.
  virtual StepHistory* step_history() { return nullptr; }

  // The bytes that the policy keeps now, beside what is in values and storages.
  virtual size_t bookkeeping_bytes() const { return 0; }

  // Aborts if a cached cost differs from one that is computed anew.
  virtual void check_invariants() {}

  // How many units of a fixed price() make up a price of 1.
  double unit() const { return unit_; }

  // A price in fixed point, as the allocator sums it: never 0, because only free blocks cost
  // nothing, and never above Price::kGreatest.
  Price fixed(double price) const {
    const double scaled = price * unit_;
    if (!(scaled < static_cast<double>(Price::kGreatest))) return {Price::kGreatest, false};
    return {scaled < 1 ? 1 : static_cast<uint64_t>(scaled), false};
  }

 protected:
  // For prices that divide time by time: ratios from 2^-30 to 2^14.
  static constexpr int kRatioBits = 30;
  // `fraction_bits`: how many bits fixed prices have after the binary point, of 44 in all.
  explicit Policy(int fraction_bits = kRatioBits) : unit_(std::ldexp(1.0, fraction_bits)) {}

 private:
  const double unit_;
};

}  // namespace tidepool::remat
