// Copies: which values have copies in a tier, and where.
// Most copies are made when bytes leave. One that is made ahead of that is used if nobody has
// written the bytes by then: a write that is seen begins another value, and where bytes may be
// written unseen, all such copies are dropped. It never takes room from others: as long as the
// bytes are there, too, it is dropped as soon as the tier is short of room.
// Owns the tier and the copies. Not thread safe: the device's lock is held.
// Invariants: (1) it has a slot for exactly the values that are Value::copied; (2) ahead_ holds
// exactly the values whose copy was made ahead, and whose bytes have not gone since, and
// ahead_bytes_ is their sum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
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
  bool has_place(const Value& value) const {
    return value.copied || tier_->has_room(value.bytes - std::min(value.bytes, ahead_bytes_));
  }
  // What it costs to let the value's bytes go by a copy, and to bring them back; UINT64_MAX if they
  // have no copy, and there is no room for one. Requires: enabled().
  uint64_t cost_ns(const Value& value) const;

  // Makes sure that the value has a valid copy of its bytes, which are at `address`; `users`: the
  // streams whose work may use them. False: it has none. Requires: enabled().
  bool make(Value& value, const void* address, std::span<const StreamId> users);
  // Makes a copy of bytes that are to leave later. `over_ns`: when it will have been made, on the
  // logical clock. False: there is no room, or the copy would be waited for. Requires: the value
  // has no copy.
  bool make_ahead(Value& value, const void* address, std::span<const StreamId> users,
                  uint64_t over_ns);
  // Whether the value's copy was made ahead, and its bytes have not left since.
  bool is_ahead(const Value& value) const { return value.copied && entry_of(value).is_ahead(); }
  // When such a copy will have been made. Requires: is_ahead().
  uint64_t over_ns(const Value& value) const { return entry_of(value).over_ns; }
  // Notes that the value's bytes are gone: its copy, if it has one, stands for them from now on.
  void left(Value& value);
  // The value whose copy was made ahead last; nullptr: there is no such copy.
  Value* last_ahead() const { return ahead_.empty() ? nullptr : ahead_.back(); }
  // Calls visit(const Value&) for each value whose copy is_ahead(); it may not drop or make copies.
  template <class Visit>
  void for_each_ahead(Visit&& visit) const {
    for (const Value* const value : ahead_) visit(*value);
  }
  // Whether the value has a copy of its bytes, which are at `address`. One that differs, because
  // somebody has written them unseen, is dropped.
  bool is_valid(Value& value, const void* address);
  // The slot of the value's copy. Requires: the value is copied.
  TierSlot slot_of(const Value& value) const { return entry_of(value).slot; }
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
    for (auto& [value, entry] : slots_) visit(*value);
  }
  size_t bookkeeping_bytes() const {
    return bytes_of(slots_) + ahead_.size() * (sizeof(Value*) + 2 * sizeof(void*));
  }
  void check_invariants() const;

  struct AheadStatistics {
    uint64_t copied_bytes = 0;
    uint64_t wasted_bytes = 0;  // of them, those that were written, died or were forgotten before
  };
  AheadStatistics ahead;

 private:
  struct Entry {
    TierSlot slot;
    std::optional<std::list<Value*>::iterator> place = {};  // in ahead_
    uint64_t over_ns = 0;

    bool is_ahead() const { return place.has_value(); }
  };

  const Entry& entry_of(const Value& value) const { return slots_.at(&value); }
  void drop_copied(Value& value);
  void leave_ahead(Value& value, Entry& entry);
  void tell_prices();

  const std::unique_ptr<Tier> tier_;
  LineageStore& store_;
  absl::flat_hash_map<Value*, Entry> slots_;
  std::list<Value*> ahead_;  // the one copied first is first
  size_t ahead_bytes_ = 0;
};

}  // namespace tidepool::remat
