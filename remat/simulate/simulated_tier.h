// SimulatedTier: a tier on the virtual clock: a link of a given speed, the same in both directions,
// and a place of a given size behind it. It holds no bytes, as simulated contents have none. Every
// transfer is waited for: none runs beside operators.
// Not thread safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "remat/tier/tier.h"

namespace tidepool::plan {

struct TierModel {
  size_t capacity_bytes = 0;  // 0: there is no tier
  double gb_per_second = 0;   // in each direction
};

class SimulatedTier final : public remat::Tier {
 public:
  explicit SimulatedTier(const TierModel& model) : model_(model) {}

  std::string describe() const override { return "simulated tier"; }
  bool has_room(size_t bytes) const override {
    return counts_.held_bytes + bytes <= model_.capacity_bytes;
  }
  std::optional<remat::TierSlot> store(const void*, size_t bytes,
                                       std::span<const StreamId>) override {
    if (!has_room(bytes)) {
      ++counts_.refusals;
      return std::nullopt;
    }
    ++counts_.stores;
    counts_.stored_bytes += bytes;
    counts_.store_ns += store_ns(bytes);
    counts_.held_bytes += bytes;
    counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.held_bytes);
    return remat::TierSlot{bytes};  // of a copy, its size is all that there is to know
  }
  void load(remat::TierSlot slot, void*, StreamId) override {
    const auto bytes = static_cast<size_t>(slot);
    ++counts_.loads;
    counts_.loaded_bytes += bytes;
    counts_.load_ns += load_ns(bytes);
  }
  bool matches(remat::TierSlot, const void*) override { return true; }
  void drop(remat::TierSlot slot) override { counts_.held_bytes -= static_cast<size_t>(slot); }
  uint64_t store_ns(size_t bytes) const override { return load_ns(bytes); }
  uint64_t load_ns(size_t bytes) const override {
    return kLatencyNs + static_cast<uint64_t>(static_cast<double>(bytes) / model_.gb_per_second);
  }
  remat::TierStatistics statistics() const override { return counts_; }
  void become_forked_child() override {}

 private:
  static constexpr uint64_t kLatencyNs = 10'000;

  const TierModel model_;
  remat::TierStatistics counts_;
};

}  // namespace tidepool::plan
