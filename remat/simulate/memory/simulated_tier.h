// SimulatedTier: a tier on the virtual clock: a link of a given speed, the same in both directions,
// and a place of a given size behind it. It holds no bytes, as simulated contents have none.
// Where transfers run beside operators, each direction does one at a time, in order, and whoever
// uses a block waits for the transfers to and from it, as streams do (until()). Else every transfer
// is waited for.
// Not thread safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "remat/tier/tier.h"

namespace tidepool::remat {

struct TierModel {
  size_t capacity_bytes = 0;  // 0: there is no tier
  double gb_per_second = 0;   // in each direction
  bool runs_beside = false;   // transfers run while operators do
};

// The model of a tier: the speed at which what goes out and comes back takes as long as there.
// nullptr: that of none.
TierModel model_of(const Tier* tier);

class SimulatedTier final : public Tier {
 public:
  // `now_ns`: the virtual clock, which outlives the tier.
  SimulatedTier(const TierModel& model, const uint64_t& now_ns) : model_(model), now_ns_(now_ns) {}

  std::string describe() const override { return "simulated tier"; }
  uint64_t most_bytes() const override { return model_.capacity_bytes; }
  bool has_room(size_t bytes) const override {
    return counts_.held_bytes + bytes <= model_.capacity_bytes;
  }
  std::optional<TierSlot> store(const void* from, size_t bytes, std::span<const StreamId>) override;
  void load(TierSlot slot, void* to, StreamId) override;
  bool runs_beside() const override { return model_.runs_beside; }
  // Where transfers run beside, contents lie where nothing compares them (HostTier).
  bool compares() const override { return !model_.runs_beside; }
  bool matches(TierSlot, const void*) override { return !model_.runs_beside; }
  void drop(TierSlot slot) override;
  uint64_t store_ns(size_t bytes) const override { return load_ns(bytes); }
  uint64_t load_ns(size_t bytes) const override {
    return kLatencyNs + static_cast<uint64_t>(static_cast<double>(bytes) / model_.gb_per_second);
  }
  TierStatistics statistics() const override { return counts_; }
  void become_forked_child() override {}

  // When all transfers to and from the `bytes` at `address` are over; 0 if they are.
  uint64_t until(const void* address, size_t bytes);
  // Says that the job has waited so long for these transfers, for the one that is over last.
  void note_wait(const void* address, size_t bytes, uint64_t ns);

 private:
  struct Copy {
    size_t bytes;
    uint64_t stored_ns;  // when it will have arrived
  };
  struct Transfer {
    uintptr_t begin, end;
    uint64_t over_ns;
    CopyDirection direction;

    bool uses(const void* address, size_t bytes) const {
      const auto first = reinterpret_cast<uintptr_t>(address);
      return begin < first + bytes && first < end;
    }
  };
  static constexpr uint64_t kLatencyNs = 10'000;

  void enqueue(CopyDirection direction, uint64_t earliest_ns, const void* address, size_t bytes);

  const TierModel model_;
  const uint64_t& now_ns_;
  uint64_t out_free_ns_ = 0, in_free_ns_ = 0;  // when each direction has done all it was given
  std::vector<Transfer> transfers_;            // that may be under way
  std::map<uint64_t, Copy> copies_;            // by slot
  uint64_t next_slot_ = 0;
  TierStatistics counts_;
};

}  // namespace tidepool::remat
