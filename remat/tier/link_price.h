// LinkPrice: how long a transfer in one direction takes, by what earlier ones have taken. What is
// said changes only when it is settled, so that prices which were computed at different moments
// can be compared. Not thread safe.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tidepool::remat {

class LinkPrice {
 public:
  explicit LinkPrice(double ns_per_byte) : measured_(ns_per_byte), settled_(ns_per_byte) {}

  uint64_t ns(size_t bytes) const {
    return kLatencyNs + static_cast<uint64_t>(static_cast<double>(bytes) * settled_);
  }
  void note(size_t bytes, uint64_t ns) {
    if (bytes < kLarge) return;
    measured_ += kWeight * (static_cast<double>(ns) / static_cast<double>(bytes) - measured_);
  }
  // Takes over what was measured, if it differs much from what is said. True: it did.
  bool settle() {
    if (std::abs(measured_ - settled_) < kTolerance * settled_) return false;
    settled_ = measured_;
    return true;
  }

 private:
  static constexpr uint64_t kLatencyNs = 50'000;
  static constexpr size_t kLarge = 256 << 10;
  static constexpr double kWeight = 0.125;  // of the newest transfer
  static constexpr double kTolerance = 0.25;

  double measured_, settled_;
};

}  // namespace tidepool::remat
