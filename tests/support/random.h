// Random: SplitMix (allocator/base/splitmix.h) with the draws that tests need: one seed decides
// all.
#pragma once

#include "allocator/base/splitmix.h"

namespace tidepool::test {

class Random : public SplitMix {
 public:
  using SplitMix::SplitMix;

  // In [low, high].
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  // True `percent` times in a hundred.
  bool chance(unsigned percent) { return below(100) < percent; }
};

}  // namespace tidepool::test
