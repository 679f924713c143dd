// SplitMix64 (Steele et al. 2014): a generator of numbers whose whole state is one word, so that
// one seed decides all of them on every platform, and its finalizer, which mixes a word.
// Not thread safe; the finalizer is compiled by CUDA's compiler too.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TIDEPOOL_HOST_DEVICE __host__ __device__
#else
#define TIDEPOOL_HOST_DEVICE
#endif

namespace tidepool {

// 2^64 divided by the golden ratio: multiples of it are spread evenly.
inline constexpr uint64_t kGoldenStep = 0x9E3779B97F4A7C15u;

// A word each of whose bits depends on every bit of `word`; different for different words.
TIDEPOOL_HOST_DEVICE inline uint64_t mixed(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
  return word ^ (word >> 31);
}

class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}

  uint64_t next() { return mixed(state_ += kGoldenStep); }
  // In [0, bound). Requires: bound > 0.
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace tidepool
