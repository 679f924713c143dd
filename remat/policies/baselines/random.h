// RandomPolicy, random: h_rand is drawn from U(0, 1) each time a price is asked for (as in Kirisame
// et al., ICLR 2021, section 4), so that any storage is as likely to be evicted as any other. A
// seed decides all draws (SplitMix64, Steele et al. 2014). A price takes O(1).
#pragma once

#include "allocator/base/splitmix.h"
#include "remat/policies/policy.h"

namespace tidepool::remat {

class RandomPolicy final : public Policy {
 public:
  explicit RandomPolicy(uint64_t seed) : Policy(kByteBits), random_(seed) {}

  double price(Storage& storage, const Circumstances&) override {
    const double draw = (static_cast<double>(random_.next() >> 12) + 0.5) * 0x1p-52;
    return draw * static_cast<double>(storage.current->bytes);
  }

 private:
  static constexpr int kByteBits = 6;  // a share of the bytes: up to 256 GiB

  SplitMix random_;
};

}  // namespace tidepool::remat
