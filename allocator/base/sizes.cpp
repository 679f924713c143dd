#include "allocator/base/sizes.h"

#include <fmt/format.h>

namespace tidepool {

std::string human_bytes(size_t bytes) {
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024.0;
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(kUnits)) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string human_and_exact_bytes(size_t bytes) {
  if (bytes < kKiB) return fmt::format("{} bytes", bytes);
  return fmt::format("{} ({} bytes)", human_bytes(bytes), bytes);
}

}  // namespace tidepool
