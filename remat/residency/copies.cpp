#include "remat/residency/copies.h"

#include <utility>

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
  if (tier_->matches(slot_of(value), address)) return true;
  drop(value);
  return false;
}

bool Copies::make(Value& value, const void* address, std::span<const StreamId> users) {
  if (is_valid(value, address)) return true;
  const auto slot = tier_->store(address, value.bytes, users);
  if (!slot) return false;
  slots_.emplace(&value, *slot);
  value.copied = true;
  return true;
}

void Copies::drop_copied(Value& value) {
  const auto found = slots_.find(&value);
  tier_->drop(found->second);
  slots_.erase(found);
  value.copied = false;
}

void Copies::clear() {
  for (auto& [value, slot] : slots_) {
    tier_->drop(slot);
    value->copied = false;
  }
  slots_.clear();
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
