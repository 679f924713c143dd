// SizePolicy, size: h_size = 1 / m(S) (GreedyRemat, Kumar et al., NeurIPS 2019, as in Kirisame et
// al. 2021, section 4): the largest storage is evicted first. A window's price is then the number
// of storages in it. A price takes O(1).
#pragma once

#include "remat/policies/policy.h"

namespace tidepool::remat {

class SizePolicy final : public Policy {
 public:
  double price(Storage&, const Circumstances&) override { return 1; }
};

}  // namespace tidepool::remat
