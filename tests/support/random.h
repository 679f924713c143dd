// Random: a small deterministic generator (SplitMix64, Steele et al. 2014): one seed decides all,
// on every platform and standard library.
#pragma once

#include <cstdint>

namespace tidepool::test {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // In [0, bound). Requires: bound > 0.
  uint64_t below(uint64_t bound) { return next() % bound; }
  // In [low, high].
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  // True `percent` times in a hundred.
  bool chance(unsigned percent) { return below(100) < percent; }

 private:
  uint64_t state_;
};

}  // namespace tidepool::test
