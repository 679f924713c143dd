// Arithmetic on sizes, and text that shows sizes to people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tidepool {

inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kGiB = size_t{1} << 30;

constexpr bool is_power_of_two(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

// Requires: `unit` a power of two; round_up: value + unit does not overflow.
constexpr size_t round_down(size_t value, size_t unit) { return value & ~(unit - 1); }
constexpr size_t round_up(size_t value, size_t unit) {
  return round_down(value + (unit - 1), unit);
}

// "1.50 GiB", "64 B": at most four significant digits.
std::string human_bytes(size_t bytes);
// "1.50 GiB (1610612736 bytes)"; only "64 bytes" where the first form would add nothing.
std::string human_and_exact_bytes(size_t bytes);

}  // namespace tidepool
