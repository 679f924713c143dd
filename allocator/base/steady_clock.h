// The steady clock, for what is measured or bounded by the time that passes. Thread safe.
#pragma once

#include <chrono>
#include <cstdint>

namespace tidepool {

inline uint64_t steady_now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace tidepool
