#include "remat/simulate/memory/simulated_tier.h"

namespace tidepool::remat {

TierModel model_of(const Tier* tier) {
  if (tier == nullptr) return {};
  constexpr size_t kMany = size_t{1} << 30;
  const uint64_t ns =
      tier->store_ns(kMany) + tier->load_ns(kMany) - tier->store_ns(0) - tier->load_ns(0);
  TierModel model;
  model.capacity_bytes = tier->most_bytes();
  model.gb_per_second = 2.0 * static_cast<double>(kMany) / std::max<double>(ns, 1);
  model.runs_beside = tier->runs_beside();
  return model;
}

void SimulatedTier::enqueue(CopyDirection direction, uint64_t earliest_ns, const void* address,
                            size_t bytes) {
  uint64_t& free_ns = direction == CopyDirection::kOut ? out_free_ns_ : in_free_ns_;
  const uint64_t start_ns = std::max({free_ns, earliest_ns, now_ns_, until(address, bytes)});
  free_ns = start_ns + load_ns(bytes);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  transfers_.push_back({begin, begin + bytes, free_ns, direction});
}

uint64_t SimulatedTier::until(const void* address, size_t bytes) {
  std::erase_if(transfers_, [&](const Transfer& transfer) { return transfer.over_ns <= now_ns_; });
  uint64_t over_ns = 0;
  for (const Transfer& transfer : transfers_) {
    if (transfer.uses(address, bytes)) over_ns = std::max(over_ns, transfer.over_ns);
  }
  return over_ns;
}

void SimulatedTier::note_wait(const void* address, size_t bytes, uint64_t ns) {
  const uint64_t over_ns = until(address, bytes);
  const bool is_out =
      std::any_of(transfers_.begin(), transfers_.end(), [&](const Transfer& transfer) {
        return transfer.over_ns == over_ns && transfer.direction == CopyDirection::kOut &&
               transfer.uses(address, bytes);
      });
  (is_out ? counts_.store_ns : counts_.load_ns) += ns;
}

std::optional<TierSlot> SimulatedTier::store(const void* from, size_t bytes,
                                             std::span<const StreamId>) {
  if (!has_room(bytes)) {
    ++counts_.refusals;
    return std::nullopt;
  }
  if (model_.runs_beside) {
    enqueue(CopyDirection::kOut, 0, from, bytes);
  } else {
    counts_.store_ns += store_ns(bytes);
  }
  ++counts_.stores;
  counts_.stored_bytes += bytes;
  counts_.held_bytes += bytes;
  counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.held_bytes);
  copies_.emplace(++next_slot_, Copy{bytes, out_free_ns_});
  return TierSlot{next_slot_};
}

void SimulatedTier::load(TierSlot slot, void* to, StreamId) {
  const Copy& copy = copies_.at(static_cast<uint64_t>(slot));
  if (model_.runs_beside) {
    enqueue(CopyDirection::kIn, copy.stored_ns, to, copy.bytes);
  } else {
    counts_.load_ns += load_ns(copy.bytes);
  }
  ++counts_.loads;
  counts_.loaded_bytes += copy.bytes;
}

void SimulatedTier::drop(TierSlot slot) {
  const auto found = copies_.find(static_cast<uint64_t>(slot));
  counts_.held_bytes -= found->second.bytes;
  copies_.erase(found);
}

}  // namespace tidepool::remat
