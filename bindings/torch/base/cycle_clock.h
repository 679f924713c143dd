// CycleClock: measures operators' costs by the processor's time stamp counter, which takes half as
// long to read as the steady clock. Costs only steer the policy, so that it does no harm if the
// counter is not quite constant. Thread safe after calibrate().
#pragma once

#include <x86intrin.h>

#include <cstdint>

namespace tidepool::torch_glue {

class CycleClock {
 public:
  // Measures the counter against the steady clock, for about two milliseconds.
  static void calibrate();

  static uint64_t now() { return __rdtsc(); }
  static uint64_t ns_since(uint64_t start) {
    return static_cast<uint64_t>(static_cast<double>(now() - start) * ns_per_cycle_);
  }

 private:
  static inline double ns_per_cycle_ = 0.5;
};

}  // namespace tidepool::torch_glue
