// Copies: which values have copies in a tier, and where.
// Owns the tier and the copies. Not thread safe: the device's lock is held.
// Invariant: it has a slot for exactly the values that are Value::copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "remat/lineage/container_bytes.h"
#include "remat/lineage/lineage_store.h"
#include "remat/tier/tier.h"

namespace tidepool::remat {

class Copies {
 public:
  // `tier`: nullptr if there is none, and nothing is ever copied.
  Copies(std::unique_ptr<Tier> tier, LineageStore& store);
  ~Copies() { clear(); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  Tier* tier() const { return tier_.get(); }
  bool enabled() const { return tier_ != nullptr; }
  bool empty() const { return slots_.empty(); }

  // Whether the value has a copy, or there would be room for one. Requires: enabled().
  bool has_place(const Value& value) const { return value.copied || tier_->has_room(value.bytes); }
  // What it costs to let the value's bytes go by a copy, and to bring them back; UINT64_MAX if they
  // have no copy, and there is no room for one. Requires: enabled().
  uint64_t cost_ns(const Value& value) const;

  // Makes sure that the value has a valid copy of its bytes, which are at `address`; `users`: the
  // streams whose work may use them. False: it has none. Requires: enabled().
  bool make(Value& value, const void* address, std::span<const StreamId> users);
  // Whether the value has a copy of its bytes, which are at `address`. One that differs, because
  // somebody has written them unseen, is dropped.
  bool is_valid(Value& value, const void* address);
  // The slot of the value's copy. Requires: the value is copied.
  TierSlot slot_of(const Value& value) const { return slots_.at(&value); }
  // The streams on which copies run; nullptr if each is done when its call returns.
  const TierStreams* streams() const { return enabled() ? tier_->streams() : nullptr; }
  // Notes that a storage has the bytes that were loaded from the value's copy.
  void loaded(Value& value) {
    if (!tier_->compares()) drop(value);
  }
  // Drops the value's copy, if it has one.
  void drop(Value& value) {
    if (value.copied) [[unlikely]]
      drop_copied(value);
  }
  // Drops all copies.
  void clear();

  // Tells the lineage what loading costs now. True: it is another price than before.
  bool settle_prices();

  // Calls visit(Value&) for each value that has a copy; it may not drop or make copies.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto& [value, slot] : slots_) visit(*value);
  }
  size_t bookkeeping_bytes() const { return bytes_of(slots_); }

 private:
  void drop_copied(Value& value);
  void tell_prices();

  const std::unique_ptr<Tier> tier_;
  LineageStore& store_;
  absl::flat_hash_map<Value*, TierSlot> slots_;
};

}  // namespace tidepool::remat
