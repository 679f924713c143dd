// LruPolicy, lru: h_LRU = 1 / s(S) (as in Kirisame et al., ICLR 2021, section 4): what was used
// last is evicted last. A window's price is then the sum of bytes divided by staleness. A price
// takes O(1).
#pragma once

#include "remat/policies/policy.h"

namespace tidepool::remat {

class LruPolicy final : public Policy {
 public:
  LruPolicy() : Policy(kRateBits) {}
  double price(Storage& storage, const Circumstances& now) override {
    return static_cast<double>(storage.current->bytes) / static_cast<double>(now.staleness_ns);
  }

 private:
  static constexpr int kRateBits = 22;  // bytes per ns: from 2^-22 on, up to 4 MiB
};

}  // namespace tidepool::remat
