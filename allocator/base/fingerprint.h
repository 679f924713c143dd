// fingerprint(): a hash of bytes, for telling whether contents came back; it is no protection
// against an adversary. It is the sum of all 8-byte words, each mixed with its place, so that its
// parts can be computed in any order and by any number of threads, on the host or on a device.
// The functions are pure. CUDA's compiler compiles them, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/base/splitmix.h"

namespace tidepool {

TIDEPOOL_HOST_DEVICE inline uint64_t mixed_word(uint64_t word, uint64_t index) {
  return mixed(word + (index + 1) * kGoldenStep);
}

// The sum over the words first, first + stride, …; an incomplete last word is filled with zeros.
// Requires: `bytes` aligned to 8.
TIDEPOOL_HOST_DEVICE inline uint64_t fingerprint_part(const void* bytes, size_t count, size_t first,
                                                      size_t stride) {
  const auto* words = static_cast<const uint64_t*>(bytes);
  const size_t whole = count / 8;
  uint64_t sum = 0;
  size_t i = first;
  for (; i < whole; i += stride) sum += mixed_word(words[i], i);
  if (i == whole && count % 8 != 0) {
    const auto* rest = static_cast<const unsigned char*>(bytes) + whole * 8;
    uint64_t word = 0;
    for (size_t k = 0; k < count % 8; ++k) word |= uint64_t{rest[k]} << (8 * k);
    sum += mixed_word(word, whole);
  }
  return sum;
}

// The fingerprint that the sum of all parts gives.
TIDEPOOL_HOST_DEVICE inline uint64_t finished_fingerprint(uint64_t sum, size_t count) {
  return mixed_word(sum, count);
}

// Requires: `bytes` aligned to 8, as every block is.
inline uint64_t fingerprint(const void* bytes, size_t count) {
  return finished_fingerprint(fingerprint_part(bytes, count, 0, 1), count);
}

// A fingerprint of all words of contents of up to 64, and of one word from each 64th part of longer
// ones: what writes all of a tensor changes it, what writes a few elements may not.
// Requires: `bytes` aligned to 8.
inline uint64_t sampled_fingerprint(const void* bytes, size_t count) {
  constexpr size_t kSamples = 64;
  if (count <= 8 * kSamples) return fingerprint(bytes, count);
  const auto* words = static_cast<const uint64_t*>(bytes);
  const size_t part = count / 8 / kSamples;
  uint64_t sum = 0;
  for (size_t k = 0; k < kSamples; ++k) {
    const size_t i = k * part + mixed(k) % part;  // not at one place in each row of a matrix
    sum += mixed_word(words[i], i);
  }
  return finished_fingerprint(sum, count);
}

}  // namespace tidepool
