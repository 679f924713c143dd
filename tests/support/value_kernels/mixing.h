// Mixing: how hashes are joined to one. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "allocator/base/fingerprint.h"

namespace tidepool::value_kernels {

// Depends on the order.
inline uint64_t mixed(uint64_t hash, uint64_t more) { return mixed_word(hash ^ more, hash); }

inline uint64_t mixed(uint64_t hash, std::string_view text) {
  for (unsigned char letter : text) hash = mixed(hash, letter);
  return mixed(hash, text.size());
}

}  // namespace tidepool::value_kernels
