// Contents: what the simulator's operators compute: hashes of operator, scalars, random draw and
// all bytes of the inputs, spread over the words of the output. A wrong address, a stale read or a
// lost write shows as a different word. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "allocator/base/splitmix.h"

namespace tidepool::sim {

using Words = std::span<uint64_t>;
using ConstWords = std::span<const uint64_t>;

inline uint64_t absorb(uint64_t hash, ConstWords words) {
  for (const uint64_t word : words) hash = (hash ^ word) * kGoldenStep + (hash >> 29);
  return mixed(hash + words.size());
}

// The words of output `ordinal` of an operator whose inputs and arguments hash to `hash`.
inline void fill(Words out, uint64_t hash, uint64_t ordinal) {
  uint64_t word = mixed(hash + ordinal * 0x632be59bd9b4e019);
  for (uint64_t& target : out) target = word = word * 0x5851f42d4c957f2d + 0x14057b7ef767814f;
}

// An in-place operator: every new word depends on the old one.
inline void update(Words out, uint64_t hash) {
  uint64_t k = 0;
  for (uint64_t& word : out) word = mixed(word ^ (hash + ++k));
}

}  // namespace tidepool::sim
