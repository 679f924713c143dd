#include "remat/residency/copies.h"

#include <utility>

#include "allocator/base/check.h"

namespace tidepool::remat {

Copies::Copies(std::unique_ptr<Tier> tier, LineageStore& store)
    : tier_(std::move(tier)), store_(store) {
  if (enabled()) tell_prices();
}

uint64_t Copies::cost_ns(const Value& value) const {
  if (!has_place(value)) return UINT64_MAX;
  if (value.copied) return tier_->load_ns(value.bytes);
  return tier_->store_ns(value.bytes) + tier_->load_ns(value.bytes);
}

bool Copies::is_valid(Value& value, const void* address) {
  if (!value.copied) return false;
  if (is_ahead(value)) return true;
  if (tier_->matches(slot_of(value), address)) return true;
  drop(value);
  return false;
}

bool Copies::make(Value& value, const void* address, std::span<const StreamId> users) {
  if (is_valid(value, address)) return true;
  while (!ahead_.empty() && !tier_->stores_beside(value.bytes)) drop(*ahead_.back());
  const auto slot = tier_->store(address, value.bytes, users);
  if (!slot) return false;
  slots_.emplace(&value, Entry{*slot});
  value.copied = true;
  return true;
}

bool Copies::make_ahead(Value& value, const void* address, std::span<const StreamId> users,
                        uint64_t over_ns) {
  if (!tier_->stores_beside(value.bytes)) return false;
  const auto slot = tier_->store(address, value.bytes, users);
  if (!slot) return false;
  slots_.emplace(&value, Entry{*slot, ahead_.insert(ahead_.end(), &value), over_ns});
  value.copied = true;
  ahead_bytes_ += value.bytes;
  ahead.copied_bytes += value.bytes;
  return true;
}

void Copies::left(Value& value) {
  if (!value.copied) return;
  Entry& entry = slots_.at(&value);
  if (entry.is_ahead()) leave_ahead(value, entry);
}

void Copies::leave_ahead(Value& value, Entry& entry) {
  ahead_.erase(*entry.place);
  entry.place.reset();
  ahead_bytes_ -= value.bytes;
}

void Copies::drop_copied(Value& value) {
  const auto found = slots_.find(&value);
  if (found->second.is_ahead()) {
    leave_ahead(value, found->second);
    ahead.wasted_bytes += value.bytes;
  }
  tier_->drop(found->second.slot);
  slots_.erase(found);
  value.copied = false;
}

void Copies::clear() {
  for (auto& [value, entry] : slots_) {
    tier_->drop(entry.slot);
    value->copied = false;
  }
  slots_.clear();
  ahead_.clear();
  ahead_bytes_ = 0;
}

void Copies::check_invariants() const {
  size_t marked = 0, bytes = 0;
  for (const auto& [value, entry] : slots_) {
    TIDEPOOL_CHECK(value->copied, "invariant 1: %zu bytes have a slot, and no copy", value->bytes);
    if (!entry.is_ahead()) continue;
    TIDEPOOL_CHECK(**entry.place == value, "invariant 2: %zu bytes", value->bytes);
    ++marked;
    bytes += value->bytes;
  }
  TIDEPOOL_CHECK(marked == ahead_.size() && bytes == ahead_bytes_,
                 "invariant 2: %zu copies of %zu bytes, not %zu of %zu", marked, bytes,
                 ahead_.size(), ahead_bytes_);
}

void Copies::tell_prices() {
  const uint64_t fixed = tier_->load_ns(0);
  constexpr size_t kMany = size_t{1} << 30;
  const auto more = static_cast<double>(tier_->load_ns(kMany) - fixed);
  store_.set_load_price(fixed, more / static_cast<double>(kMany));
}

bool Copies::settle_prices() {
  if (!enabled() || !tier_->settle_prices()) return false;
  tell_prices();
  return true;
}

}  // namespace tidepool::remat
